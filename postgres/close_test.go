package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// closesSoon fails if Close of the opened Backend takes as long as its grace period in each of three tries: on a busy
// machine, one Close may be slow.
func closesSoon(t *testing.T, open func() (b *Backend, closed func())) {
	t.Helper()
	const most, tries = 9 * time.Second / 10, 3
	var took time.Duration
	for range tries {
		b, closed := open()
		begun := time.Now()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		took = time.Since(begun)
		closed()
		if took <= most {
			return
		}
	}
	t.Errorf("Close took %v", took)
}

// A watched idle connection does not make Close wait for its grace period.
func TestCloseWaitsForNobodyAtRest(t *testing.T) {
	s := shared(t)
	closesSoon(t, func() (*Backend, func()) {
		b := opened(t, s.PostgresURL())
		held := acquire(t, b, req(backend.NewOwner(), time.Minute))
		release(t, acquire(t, b, req(backend.NewOwner(), time.Minute)))
		until(t, soon, "both connections are watched", func() bool { return watched(b) >= 2 })
		return b, func() { <-held.Lost() }
	})
}

// watched returns the number of connections of b that a watcher reads from.
func watched(b *Backend) (n int) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	for s := range b.pool.all {
		if s.isWatched() {
			n++
		}
	}
	return n
}

// Close does not wait for waiters in the server's queue. Their Acquires return ErrClosed.
func TestCloseEndsWaits(t *testing.T) {
	s := shared(t)
	a := opened(t, s.PostgresURL())
	closesSoon(t, func() (*Backend, func()) {
		b, key := opened(t, s.PostgresURL()), backend.NewOwner()
		l := acquire(t, a, req(key, time.Minute))
		done := startAcquire(context.Background(), b, waiting(key, time.Minute))
		queued(t, a, key, 1)
		return b, func() {
			if o := <-done; !errors.Is(o.Err, backend.ErrClosed) {
				t.Errorf("%v, want ErrClosed", o.Err)
			}
			release(t, l)
		}
	})
}

// If a renewal has no reply when Close ends, its key stays held until the TTL has run out, as for any other lease.
func TestCloseKeepsKeyUnderRenewal(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	for mode, params := range variants {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, p, b := proxied(t, params)
			c := dialed(t, s.PostgresURL())
			l := acquire(t, b, req(mode, ttl))
			p.requests()
			p.set(func(p *proxy) { p.mute = true })
			renewed := make(chan error, 1)
			go func() { renewed <- l.Renew(context.Background(), ttl) }()
			until(t, soon, "the renewal is under way", func() (sent bool) {
				p.set(func(p *proxy) { sent = p.syncs > 0 })
				return sent
			})
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-renewed; !errors.Is(err, backend.ErrClosed) {
				t.Errorf("the renewal: %v, want ErrClosed", err)
			}
			if locks(t, c) == 0 {
				t.Fatalf("the key is free after Close, of a TTL of %v", ttl)
			}
			if took := freedAfter(t, c, mode); took < ttl {
				t.Errorf("freed %v after the renewal, of a TTL of %v", took, ttl)
			}
		})
	}
}
