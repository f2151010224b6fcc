package postgres

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// A ghost is the session of a connection that is broken for the client and not for the server: it keeps what it holds.

// exorcise makes sure of what h holds when its connection is broken: nil or ErrLost mean that it is free.
func (b *Backend) exorcise(ctx context.Context, h *held) error {
	b.pool.drop(h)
	if err := b.banish(ctx, h.s); err != nil {
		return err
	}
	return backend.ErrLost
}

// hunt banishes s, again and again until it has gone, or what it may hold has by its ttl. After Close has begun only the ttl ends it. The
// server mostly ends it by itself: after a second one look, of one hunt at a time, shows that it has.
func (b *Backend) hunt(s *session, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(b.closing, ttl)
	defer cancel()
	look := func() error {
		b.hunting.Lock()
		defer b.hunting.Unlock()
		return b.banish(ctx, s)
	}
	pause := backend.Pause{Min: time.Second, Max: 10 * time.Second}
	for backend.Sleep(ctx, pause.Next(0)) == nil && look() != nil {
	}
}

// banish ends the session of a broken connection, in case the server has not noticed, and waits for its end, by which its locks
// are free. A pooler's session is the pooler's matter: it ends it, or gives it to somebody else, who may have the key by now.
func (b *Backend) banish(ctx context.Context, s *session) error {
	if !s.direct {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	pause := backend.Pause{Min: time.Millisecond, Max: 20 * time.Millisecond}
	for {
		found, err := b.query(ctx, ghostSQL, s.server.pid, s.server.begun)
		if err != nil || len(found) == 0 {
			return err
		}
		if err := backend.Sleep(ctx, pause.Next(0)); err != nil {
			return err
		}
	}
}
