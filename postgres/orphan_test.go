package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// A network path may reset a connection while the session behind it lives on and has executed the request. The repeated
// attempt must not find the key held by the first attempt.
func TestResetAttemptLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	for mode, params := range variants {
		p := newProxy(t, s.Addr)
		b := opened(t, s.via(p.Addr)+params)
		release(t, acquire(t, b, req(mode, time.Minute)))
		rest(t, b)
		p.set(func(p *proxy) { p.reset = true })
		l := acquire(t, b, req(mode, time.Minute))
		p.set(func(p *proxy) {
			if p.reset {
				t.Errorf("%s: no connection was reset", mode)
			}
		})
		release(t, l)
		if n := locks(t, c); n != 0 {
			t.Errorf("%s: %d locks after release", mode, n)
		}
	}
}

// A session is recognized whatever the format of its times is. The server reads IST, India's time in this format, as
// Israel's.
func TestOrphanOfOtherTimeFormat(t *testing.T) {
	t.Parallel()
	s, p, b := proxied(t, "&datestyle=SQL&timezone=Asia%2FKolkata")
	c := dialed(t, s.PostgresURL())
	release(t, acquire(t, b, req("k", time.Minute)))
	rest(t, b)
	p.set(func(p *proxy) { p.reset = true })
	release(t, acquire(t, b, req("k", time.Minute)))
	if n := locks(t, c); n != 0 {
		t.Errorf("%d locks after release", n)
	}
}

// If only a part of a release reaches the server, the session keeps the lock, and no timer runs while the server waits
// for the rest. The client terminates that session.
func TestReleaseLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	for mode, params := range variants {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, p, b := proxied(t, params+brief)
			c := dialed(t, s.PostgresURL())
			l := acquire(t, b, req("k", time.Minute))
			p.set(func(p *proxy) { p.tail = 1 })
			if err := l.Release(context.Background()); err == nil {
				t.Error("released by a part of a request")
			}
			until(t, 2*soon, "no lock is left", func() bool { return locks(t, c) == 0 })
		})
	}
}

// An attempt that is not repeated, because its connection was new or its time limit has passed, leaves no lock behind.
// Its caller gets an error, and the session is terminated in the background, once the server can be reached.
func TestFailedAttemptLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	attempt := func(t *testing.T, b *Backend, r backend.Request, within time.Duration) (granted bool) {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		l, err := b.Acquire(ctx, r)
		if err == nil {
			release(t, l)
		}
		return err == nil
	}
	for mode, params := range variants {
		for i := range 4 {
			wait, shared := i%2 == 1, i/2 == 1
			r := req("k", time.Minute)
			r.Wait, r.Shared = wait, shared
			run := func(name string, f func(t *testing.T, p *proxy, b *Backend)) {
				t.Run(fmt.Sprintf("%s/%s/wait=%v/shared=%v", name, mode, wait, shared), func(t *testing.T) {
					t.Parallel()
					s, p, b := proxied(t, params+brief)
					c := dialed(t, s.PostgresURL())
					release(t, acquire(t, b, req("other", time.Minute)))
					rest(t, b)
					f(t, p, b)
					until(t, 2*soon, "no lock is left", func() bool { return locks(t, c) == 0 })
				})
			}
			run("new", func(t *testing.T, p *proxy, b *Backend) {
				b.pool.mu.Lock()
				for s := range b.pool.all {
					s.answered.Store(false)
				}
				b.pool.mu.Unlock()
				p.set(func(p *proxy) { p.reset = true })
				if attempt(t, b, r, 2*soon) && !wait {
					t.Error("granted without an answer")
				}
			})
			run("late", func(t *testing.T, p *proxy, b *Backend) {
				p.set(func(p *proxy) { p.hole = true })
				if attempt(t, b, r, 3*time.Second) {
					t.Error("granted without an answer")
				}
			})
		}
	}
}

// If a renewal gets no reply, the server may have executed it, and the session may last for the longer TTL. The session
// is terminated once the server can be reached.
func TestUnansweredRenewalLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for mode, params := range variants {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, p, b := proxied(t, params+brief)
			c := dialed(t, s.PostgresURL())
			l := acquire(t, b, req("k", ttl))
			p.Refuse(true)
			b.pool.mu.Lock()
			for s := range b.pool.all { // another session could terminate this one at once
				if s.held == nil {
					_ = s.wire().Close()
				}
			}
			b.pool.mu.Unlock()
			p.set(func(p *proxy) { p.reset = true })
			if err := l.Renew(context.Background(), time.Minute); err == nil {
				t.Fatal("renewed without an answer")
			}
			time.Sleep(ttl + ttl/2) // sleeps: how long the server is out of reach
			if n := locks(t, c); n != 1 {
				t.Fatalf("%d locks, although nobody could end the session", n)
			}
			p.Refuse(false)
			until(t, 3*soon, "no lock is left", func() bool { return locks(t, c) == 0 })
		})
	}
}

// The TTL of a queued session does not begin before the server grants the lock. If a waiter is cut off, it queues
// again, behind its own first session, until that session is terminated.
func TestCutOffWaiterLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	s, p, b := proxied(t, brief)
	a := opened(t, s.PostgresURL())
	c := dialed(t, s.PostgresURL())
	held := acquire(t, a, req("k", time.Minute))
	done := startAcquire(context.Background(), b, waiting("k", ttl))
	queued(t, a, "k", 1)
	orphan := query[int](t, c, "SELECT pid FROM pg_locks WHERE NOT granted AND "+advisory)
	p.Refuse(true)
	p.set(func(p *proxy) { p.keep = true })
	b.cut()
	time.Sleep(2 * ttl) // sleeps: how long the server is out of reach
	p.Refuse(false)
	until(t, 2*soon, "the session has left the queue", func() bool {
		return query[int](t, c, "SELECT count(*) FROM pg_locks WHERE pid = $1 AND "+advisory, orphan) == 0
	})
	release(t, held)
	release(t, granted(t, done, soon).Lease)
}

// A wait that is given up is cancelled at the server, even if its connection is older than a login may take.
func TestOldWaitIsCancelled(t *testing.T) {
	t.Parallel()
	s, p, b := proxied(t, brief)
	a := opened(t, s.PostgresURL())
	held := acquire(t, a, req("k", time.Minute))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := startAcquire(ctx, b, waiting("k", time.Minute))
	queued(t, a, "k", 1)
	time.Sleep(b.options.loginLimit() + 100*time.Millisecond) // sleeps: the age of the connection
	cancel()
	if o := <-done; !errors.Is(o.Err, context.Canceled) {
		t.Fatalf("a cancelled wait: %v", o.Err)
	}
	until(t, soon, "a cancel request arrives", func() (arrived bool) {
		p.set(func(p *proxy) { arrived = p.cancel > 0 })
		return arrived
	})
	release(t, held)
}

// Orphans are terminated in batches: there are fewer requests than orphans.
func TestOrphansAreLookedForTogether(t *testing.T) {
	t.Parallel()
	const n = 20
	s, p, b := proxied(t, "&lock_max_leases=60")
	a := opened(t, s.PostgresURL())
	held := acquire(t, a, req("k", time.Minute))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var waits []<-chan outcome
	for range n {
		waits = append(waits, startAcquire(ctx, b, waiting("k", time.Minute)))
	}
	queued(t, a, "k", n)
	p.requests()
	cancel()
	for _, done := range waits {
		if o := <-done; o.Err == nil {
			t.Error("granted twice")
		}
	}
	until(t, 2*soon, "the session is terminated", func() bool {
		b.orphansMu.Lock()
		defer b.orphansMu.Unlock()
		return len(b.orphans) == 0
	})
	if got := p.requests(); got >= n {
		t.Errorf("%d requests for %d sessions that were given up", got, n)
	}
	release(t, held)
}

// If many connections break at once, the leases do not each connect again to terminate their sessions, because that
// would burden a server that may already be overloaded.
func TestLostLeasesAreLookedForTogether(t *testing.T) {
	t.Parallel()
	const n = 20
	_, p, b := proxied(t, "&lock_max_leases=60")
	var leases []backend.Lease
	for range n {
		leases = append(leases, acquire(t, b, req(backend.NewOwner(), time.Minute)))
	}
	p.set(func(p *proxy) { p.made = 0 })
	b.cut()
	for _, l := range leases {
		lost(t, l, soon)
	}
	until(t, 2*soon, "the session is terminated", func() bool {
		made := 0
		p.set(func(p *proxy) { made = p.made })
		b.orphansMu.Lock()
		defer b.orphansMu.Unlock()
		return made > 0 && len(b.orphans) == 0
	})
	if err := b.Close(); err != nil { // Close waits for requests under way
		t.Error(err)
	}
	p.set(func(p *proxy) {
		if p.made > 2 {
			t.Errorf("%d sessions to look for those of %d leases", p.made, n)
		}
	})
}

// A session that becomes an orphan while others are being terminated is terminated, too.
func TestOrphanDuringTermination(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.via(p.Addr))
	c := dialed(t, s.PostgresURL())
	var orphans []string
	for range 2 {
		orphans = append(orphans, query[string](t, dialed(t, s.PostgresURL()),
			"SELECT pid || ' ' || extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = pg_backend_pid()"))
	}
	ended := func(orphan string) func() bool {
		pid, _, _ := strings.Cut(orphan, " ")
		return func() bool { return query[int](t, c, "SELECT count(*) FROM pg_stat_activity WHERE pid = "+pid) == 0 }
	}
	p.Set(func(p *storetest.Proxy) { p.Delay = time.Second }) // the query has not returned when it has its effect
	b.terminateLater(orphans[0])
	until(t, 2*soon, "the first is terminated", ended(orphans[0]))
	b.terminateLater(orphans[1])
	p.Set(func(p *storetest.Proxy) { p.Delay = 0 })
	until(t, 3*soon, "the second is terminated", ended(orphans[1]))
}
