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
	// lateArrival is how long an abandoned request may still take to reach the store: a server's thread, or one processor
	// of a virtual machine, can stall for hundreds of milliseconds. An owner counts as removed when the store has had
	// nothing of the owner for that long.
	lateArrival = time.Second
)

// Abandon removes, in the background, anything that the store may keep of r's owner after an Acquire whose outcome is
// unknown. It sends the first request at once, and repeats it until the store has had nothing of the owner for a
// second, or ttl has passed (at least the timeout of NewLeases). After Close it does nothing.
func (s *Leases) Abandon(r backend.Request, ttl time.Duration) {
	s.cleanUp(&Life{leases: s, key: r.Key, owner: r.Owner, shared: r.Shared}, ttl, true)
}

// Withdraw removes, in the background, anything that the store keeps of r's owner after an Acquire that failed, such as
// its place in a queue. All requests of the owner must have been answered, so that the store's first answer to the
// removal is final. Withdraw repeats the removal until it is answered, or ttl has passed (at least the timeout of
// NewLeases).
func (s *Leases) Withdraw(r backend.Request, ttl time.Duration) {
	s.cleanUp(&Life{leases: s, key: r.Key, owner: r.Owner, shared: r.Shared}, ttl, false)
}

// cleanUp removes, in the background, anything that the store may keep of l's owner. If mayRegrant is false, it stops
// at the first answer. Otherwise an unanswered request may still grant the key: cleanUp then stops when the store has
// had nothing of the owner for lateArrival or, once Close has begun, at the second answer.
func (s *Leases) cleanUp(l *Life, ttl time.Duration, mayRegrant bool) {
	l = &Life{Data: l.Data, leases: s, key: l.key, owner: l.owner, shared: l.shared, state: lost}
	s.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, max(ttl, s.timeout))
		defer cancel()
		var absent time.Time // since when the store has had nothing of the owner
		closing := s.closing.Done()
		for pause := cleanupFirst; ctx.Err() == nil; pause = min(2*pause, cleanupMost) {
			err := s.tryRelease(ctx, l)
			isAbsent := errors.Is(err, backend.ErrLost)
			switch enough := time.Since(absent) >= lateArrival || closing == nil; {
			case err != nil && !isAbsent: // no answer
			case !mayRegrant, isAbsent && !absent.IsZero() && enough:
				return
			case err == nil || absent.IsZero():
				absent = time.Now()
			}
			select {
			case <-time.After(pause):
			case <-closing:
				closing = nil
				time.Sleep(cleanupFirst)
			case <-ctx.Done():
			}
		}
	})
}

// tryRelease makes one attempt, within the timeout, to release l.
func (s *Leases) tryRelease(ctx context.Context, l *Life) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.requests.ReleaseLease(ctx, l)
}
