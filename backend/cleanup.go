package backend

import (
	"context"
	"errors"
	"time"
)

const (
	cleanupFirst = 20 * time.Millisecond // the first pause between attempts; it doubles
	cleanupMost  = time.Second           // the longest pause
	// A request that was given up may still be on its way when the store answers "nothing there": a server's thread, or one
	// processor of a virtual machine, can stand still for hundreds of milliseconds. The answer is believed when the store
	// gives it twice, this far apart.
	cleanupSettle = time.Second
)

// Abandon removes, in the background, what the store may keep of owner after a request whose outcome is unknown: at
// once, then again until the store has removed it, or has said twice that there is nothing, or ttl has run out.
func (s *Leases) Abandon(key, owner string, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandonLocked(key, owner, nil, ttl)
}

func (s *Leases) abandonLocked(key, owner string, data any, ttl time.Duration) {
	if s.closed {
		return // its TTL ends it
	}
	l := &Life{Data: data, leases: s, key: key, owner: owner, state: lost}
	s.cleanups.Go(func() { s.cleanUp(l, ttl) })
}

func (s *Leases) cleanUp(l *Life, ttl time.Duration) {
	ctx, cancel := context.WithTimeout(s.base, max(ttl, s.timeout))
	defer cancel()
	var absent time.Time // when the store first said that there is nothing
	for pause := cleanupFirst; ; pause = min(2*pause, cleanupMost) {
		err := s.request(ctx, l)
		switch {
		case err == nil:
			return
		case !errors.Is(err, ErrLost):
		case absent.IsZero():
			absent = time.Now()
		case time.Since(absent) >= cleanupSettle:
			return
		}
		if Sleep(ctx, pause) != nil {
			return
		}
	}
}

func (s *Leases) request(ctx context.Context, l *Life) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.requests.ReleaseLease(ctx, l)
}

// releaseOnce gives back, once and within the timeout, what the store may keep of a lease that is over for its holder.
func (s *Leases) releaseOnce(l *Life) {
	_ = s.request(context.Background(), l) // its TTL ends it in any case
}

// giveBack is releaseOnce in the background, for leases that the store has prolonged after their end.
func (s *Leases) giveBack(lives ...*Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(lives) == 0 {
		return
	}
	s.cleanups.Go(func() {
		for _, l := range lives {
			if s.base.Err() == nil {
				_ = s.request(s.base, l)
			}
		}
	})
}
