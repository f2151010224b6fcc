package kit

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	cleanupFirst = 20 * time.Millisecond // the first pause between attempts; it doubles
	cleanupMost  = time.Second           // the longest pause
	// lateArrival is how long a request that was given up may still take to reach the store: a server's thread, or one
	// processor of a virtual machine, can stand still for hundreds of milliseconds. An owner counts as removed when the
	// store has had nothing of it for so long.
	lateArrival = time.Second
)

// Abandon removes, in the background, what the store may keep of r's owner after an Acquire whose outcome is unknown.
// It asks at once, then again, until the store has had nothing of the owner for a second, or ttl has run out. After
// Close it does nothing.
func (s *Leases) Abandon(r backend.Request, ttl time.Duration) {
	s.cleanUp(&Life{leases: s, key: r.Key, owner: r.Owner, shared: r.Shared}, ttl, true)
}

// Withdraw removes, in the background, what the store keeps of r's owner after an Acquire that failed, such as its
// place in a queue. All requests of the owner must have been answered: the store's answer to the removal is final.
// Withdraw asks until there is one, or ttl has run out.
func (s *Leases) Withdraw(r backend.Request, ttl time.Duration) {
	s.cleanUp(&Life{leases: s, key: r.Key, owner: r.Owner, shared: r.Shared}, ttl, false)
}

// cleanUp removes, in the background, what the store may keep of l's owner. The first answer counts, unless an
// unanswered request may grant the key again. Once Close has begun, the second answer counts.
func (s *Leases) cleanUp(l *Life, ttl time.Duration, mayReturn bool) {
	l = &Life{Data: l.Data, leases: s, key: l.key, owner: l.owner, shared: l.shared, state: lost}
	s.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, max(ttl, s.timeout))
		defer cancel()
		var absent time.Time // since when the store has had nothing
		closing := s.closing.Done()
		for pause := cleanupFirst; ; pause = min(2*pause, cleanupMost) {
			err := s.request(ctx, l)
			answered := err == nil || errors.Is(err, backend.ErrLost)
			switch enough := time.Since(absent) >= lateArrival || closing == nil; {
			case answered && !mayReturn, answered && err != nil && !absent.IsZero() && enough:
				return
			case answered && (err == nil || absent.IsZero()):
				absent = time.Now()
			}
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-closing:
				closing = nil
				t.Reset(cleanupFirst)
				<-t.C
			case <-ctx.Done():
			}
			if t.Stop(); ctx.Err() != nil {
				return
			}
		}
	})
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
	if len(lives) == 0 {
		return
	}
	s.Go(func(ctx context.Context) {
		for _, l := range lives {
			if ctx.Err() == nil {
				_ = s.request(ctx, l)
			}
		}
	})
}
