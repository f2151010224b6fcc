package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// An orphan is a session whose connection is broken for the client, but not for the server. It keeps its locks. The
// functions below get the name of its session.

// terminateLater terminates the session of orphan in the background.
func (b *Backend) terminateLater(orphan string) {
	b.orphansMu.Lock()
	defer b.orphansMu.Unlock()
	b.orphans = append(b.orphans, orphan)
	if len(b.orphans) == 1 {
		b.leases.Go(func(context.Context) { b.terminateOrphans() })
	}
}

// terminateOrphans terminates all orphans with one query. It repeats the query until no orphan is left or Close begins.
// It does not stop after a TTL: the server may have executed a renewal to a longer TTL, and the TTL of a queued session
// begins when the session gets the lock. The first query runs after one to three seconds: by then the server has ended
// most orphans by itself, and one query suffices. The pauses grow if queries fail.
func (b *Backend) terminateOrphans() {
	pause := kit.Pause{Min: time.Second, Max: 10 * time.Second}
	for kit.Sleep(b.leases.Closing(), pause.Next(0)) == nil {
		b.orphansMu.Lock()
		orphans := slices.Clone(b.orphans)
		b.orphansMu.Unlock()
		if b.terminateNow(b.leases.Closing(), orphans...) != nil {
			continue
		}
		pause.Reset()
		b.orphansMu.Lock()
		b.orphans = b.orphans[len(orphans):]
		done := len(b.orphans) == 0
		b.orphansMu.Unlock()
		if done {
			return
		}
	}
}

// terminateNow terminates sessions, because the server may not have noticed that their connections are broken. It waits
// until they have ended and their locks are free.
func (b *Backend) terminateNow(ctx context.Context, orphans ...string) error {
	_, err := b.terminate(ctx, orphanSQL, `{"`+strings.Join(orphans, `","`)+`"}`)
	return err
}

// terminate repeats sql, which terminates sessions and returns a row for each, until no session is left or
// Options.Timeout has passed. found reports whether there was one.
func (b *Backend) terminate(ctx context.Context, sql string, params ...string) (found bool, err error) {
	limit, cancel := context.WithTimeout(ctx, b.options.Timeout) // for the pauses; a query may need a new connection
	defer cancel()
	pause := kit.Pause{Min: time.Millisecond, Max: 20 * time.Millisecond}
	for ; ; found = true {
		rows, err := b.query(ctx, sql, params...)
		if err == nil && len(rows) > 0 {
			err = kit.Sleep(limit, pause.Next(0))
		}
		if err != nil || len(rows) == 0 {
			return found, err
		}
	}
}
