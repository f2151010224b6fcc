package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// A ghost is the session of a connection that is broken for the client and not for the server: it keeps what it holds.

var errGhost = errors.New("the server had not noticed yet that the connection is broken")

// exorcise ends the session of a broken connection, in case the server has not noticed. ErrLost means that there is none.
func (b *Backend) exorcise(ctx context.Context, h *hold) error {
	b.pool.drop(h)
	if b.options.Mode == ModeTransaction || !h.s.direct {
		return backend.ErrLost // the pooler ends it, or gives it to somebody else, who may have the key by now
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	rows, err := b.terminate(ctx, h.s)
	switch {
	case err != nil:
		return err
	case len(rows) == 0:
		return backend.ErrLost
	}
	return errGhost
}

// banish ends the session of a broken connection, in case the server has not noticed, and waits for its end, by which its locks
// are free. A pooler's session is the pooler's matter.
func (b *Backend) banish(ctx context.Context, s *session) error {
	if !s.direct {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	pause := backend.Pause{Min: time.Millisecond, Max: 20 * time.Millisecond}
	for {
		rows, err := b.terminate(ctx, s)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := backend.Sleep(ctx, pause.Next(0)); err != nil {
			return err
		}
	}
}

// terminate tells the server to end the session of s. There are no rows when there is no such session any more.
func (b *Backend) terminate(ctx context.Context, s *session) (rows [][]string, err error) {
	err = b.aside(ctx, func(other *session) (err error) {
		rows, err = other.query(ghostSQL, s.server.pid, s.server.begun)
		return err
	})
	return rows, err
}
