package memcached

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// If a request or its reply is lost, the request is repeated and recognises its own owner. All calls succeed.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b, other := opened(t, "memcached://"+p.Addr+patient), opened(t, "memcached://"+s.Addr+patient)
	ctx := context.Background()
	for _, what := range []action{loseReply, refuse} {
		for _, wait := range []bool{false, true} {
			for _, verb := range []string{"add", "incr", "append"} {
				r := req("k", time.Minute)
				r.Wait = wait
				done := p.once(verb, what)
				l := acquire(t, b, r)
				for !isClosed(done) { // a slow machine: the token took so long that a renewal stored it
					release(t, l)
					l = acquire(t, b, r)
				}
				isHeld(t, other, "k")
				if h, err := other.Inspect(ctx, "k"); err != nil || h.Owner != r.Owner {
					t.Errorf("inspect: %+v, %v", h, err)
				}
				if err := l.Renew(ctx, time.Minute); err != nil {
					t.Errorf("renew after a lost %s: %v", verb, err)
				}
				release(t, l)
				release(t, acquire(t, other, req("k", time.Minute)))
			}
		}
		for _, verb := range []string{"gets", "cas"} {
			l := acquire(t, b, req("k", time.Minute))
			done := p.once(verb, what)
			if err := l.Renew(ctx, time.Minute); err != nil {
				t.Errorf("renew with a lost %s: %v", verb, err)
			}
			<-done
			done = p.once(verb, what)
			release(t, l)
			<-done
			release(t, acquire(t, other, req("k", time.Minute)))
		}
		p.set(nil)
	}
}

// If no reply arrives at all, Acquire fails, and the lock that the server has stored is removed in the background.
func TestNoReplies(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b, other := opened(t, "memcached://"+p.Addr), opened(t, "memcached://"+s.Addr)
	for _, verb := range []string{"add", "incr"} {
		p.set(func(v string) action {
			if v == verb {
				return loseReply
			}
			return pass
		})
		if l, err := b.Acquire(context.Background(), req("k", time.Minute)); err == nil || l != nil {
			t.Fatalf("acquire without replies to %s: %v, %v", verb, l, err)
		}
		p.set(nil)
		until(t, soon, "the key is free after a failed acquire", func() bool {
			h, err := other.Inspect(context.Background(), "k")
			return err == nil && !h.Held()
		})
	}
}

// A cancelled Acquire leaves nothing behind, even if the server has executed its request.
func TestCancelledInTheMiddle(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b, other := opened(t, "memcached://"+p.Addr), opened(t, "memcached://"+s.Addr)
	// attempt cancels an Acquire when it sends verb. It returns false if append was not sent, because a renewal stores a
	// token that arrives late.
	attempt := func(verb string, wait bool) bool {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var sent atomic.Bool
		p.set(func(v string) action {
			if v == verb {
				sent.Store(true)
				cancel()
			}
			return pass
		})
		r := req("k", time.Minute)
		r.Wait = wait
		l, err := b.Acquire(ctx, r)
		p.set(nil)
		switch {
		case err == nil && verb == "append" && !sent.Load():
			release(t, l)
			return false
		case err == nil:
			t.Fatal("granted under a context that has ended", l)
		case !errors.Is(err, context.Canceled):
			t.Errorf("cancelled acquire: %v", err)
		}
		return true
	}
	for _, verb := range []string{"add", "incr", "append"} {
		for _, wait := range []bool{false, true} {
			for !attempt(verb, wait) {
				t.Log("the machine is slow: append was not sent")
			}
			until(t, soon, "the key is free after a cancelled acquire", func() bool {
				h, err := other.Inspect(context.Background(), "k")
				return err == nil && !h.Held()
			})
		}
	}
}

// After a restart, all idle connections are broken. Acquire, renewal and release still succeed.
func TestIdleConnectionsAfterRestart(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+patient)
	leases := make(chan backend.Lease)
	const together = 8
	for i := range together {
		go func() {
			l, _ := b.Acquire(context.Background(), req(string(rune('a'+i)), time.Minute))
			leases <- l
		}()
	}
	for range together {
		if <-leases == nil {
			t.Fatal("no lease")
		}
	}
	s.Kill()
	s.Start()
	l := acquire(t, b, req("k", time.Minute))
	if err := l.Renew(context.Background(), time.Minute); err != nil {
		t.Error(err)
	}
	release(t, l)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
