package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// A ghost is the session of a connection that is broken for the client and not for the server: it keeps what it holds.

// terminateLater ends the session of ghost in the background.
func (b *Backend) terminateLater(ghost server) {
	b.ghostsMu.Lock()
	defer b.ghostsMu.Unlock()
	b.ghosts = append(b.ghosts, ghost)
	if len(b.ghosts) == 1 {
		b.leases.Go(func(context.Context) { b.terminateGhosts() })
	}
}

// terminateGhosts looks for all ghosts together until they have gone, or until Close begins. No TTL ends it: the server
// may have carried out a renewal to a longer one, and that of a session in its queue begins when it is given the lock.
// The server mostly ends them by itself, so that one look shows that they have gone; it comes after one to three
// seconds, and later where looks fail.
func (b *Backend) terminateGhosts() {
	pause := kit.Pause{Min: time.Second, Max: 10 * time.Second}
	for kit.Sleep(b.leases.Closing(), pause.Next(0)) == nil {
		b.ghostsMu.Lock()
		ghosts := slices.Clone(b.ghosts)
		b.ghostsMu.Unlock()
		if b.terminateNow(b.leases.Closing(), ghosts...) != nil {
			continue
		}
		pause.Reset()
		b.ghostsMu.Lock()
		b.ghosts = b.ghosts[len(ghosts):]
		over := len(b.ghosts) == 0
		b.ghostsMu.Unlock()
		if over {
			return
		}
	}
}

// terminateNow ends sessions, in case the server has not noticed that their connections are broken, and waits for their
// end, by which their locks are free.
func (b *Backend) terminateNow(ctx context.Context, ghosts ...server) error {
	var pids, begun []string
	for _, g := range ghosts {
		pids, begun = append(pids, g.pid), append(begun, g.begun)
	}
	_, err := b.terminate(ctx, ghostSQL, "{"+strings.Join(pids, ",")+"}", `{"`+strings.Join(begun, `","`)+`"}`)
	return err
}

// terminate repeats sql, which terminates sessions and returns a row for each, until none is left, but not for longer
// than a request may take. found reports whether there was one.
func (b *Backend) terminate(ctx context.Context, sql string, params ...string) (found bool, err error) {
	limit, cancel := context.WithTimeout(ctx, b.options.Timeout) // of the wait; a query may need a new connection first
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
