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
		left, err := b.terminate(b.leases.Closing(), ghosts...)
		if err != nil {
			continue
		}
		pause.Reset()
		b.ghostsMu.Lock()
		b.ghosts = append(left, b.ghosts[len(ghosts):]...)
		over := len(b.ghosts) == 0
		b.ghostsMu.Unlock()
		if over {
			return
		}
	}
}

// terminate has sessions ended, and returns those that were still there.
func (b *Backend) terminate(ctx context.Context, ghosts ...server) (left []server, err error) {
	var pids, begun []string
	for _, g := range ghosts {
		pids, begun = append(pids, g.pid), append(begun, g.begun)
	}
	rows, err := b.query(ctx, ghostSQL, "{"+strings.Join(pids, ",")+"}", `{"`+strings.Join(begun, `","`)+`"}`)
	return slices.DeleteFunc(ghosts, func(g server) bool {
		return !slices.ContainsFunc(rows, func(row []string) bool { return row[0] == g.pid && row[1] == g.begun })
	}), err
}

// terminateBroken ends the session of a broken connection, in case the server has not noticed, and waits for its end,
// by which its locks are free.
func (b *Backend) terminateBroken(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	pause := kit.Pause{Min: time.Millisecond, Max: 20 * time.Millisecond}
	for {
		left, err := b.terminate(ctx, s.server)
		if err != nil || len(left) == 0 {
			return err
		}
		if err := kit.Sleep(ctx, pause.Next(0)); err != nil {
			return err
		}
	}
}
