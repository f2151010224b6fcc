package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// P1: if a wait is cancelled while its lock is granted, no lock remains on any session.
func TestCancelRacesGrant(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := opened(t, s.PostgresURL()), opened(t, s.PostgresURL())
	c := dialed(t, s.PostgresURL())
	won := 0
	for i := range 60 {
		key := fmt.Sprint("k", i)
		l := acquire(t, a, req(key, time.Minute))
		ctx, cancel := context.WithCancel(context.Background())
		r := waiting(key, time.Minute)
		r.Shared = i%2 == 1
		done := startAcquire(ctx, b, r)
		queued(t, a, key, 1)
		go cancel()
		time.Sleep(rand.N(200 * time.Microsecond)) // sleeps: the lock is released at a random time after the cancellation
		release(t, l)
		if o := <-done; o.Err == nil {
			won++
			release(t, o.Lease)
		} else if !errors.Is(o.Err, context.Canceled) {
			t.Fatal(o.Err)
		}
	}
	t.Logf("%d of 60 waits were granted", won)
	until(t, soon, "no lock is left", func() bool { return locks(t, c) == 0 })
}

// P2 and P7: a Release whose context has ended still releases, and no session returns to the pool with a lock.
func TestCancelledRelease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	for mode, params := range variants {
		b := opened(t, s.PostgresURL()+params)
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		for range 10 {
			l := acquire(t, b, req(mode, time.Minute))
			if err := l.Release(cancelled); err != nil {
				t.Errorf("%s: %v", mode, err)
			}
			if n := locks(t, c); n != 0 {
				t.Errorf("%s: %d locks after release", mode, n)
			}
		}
		b.pool.mu.Lock()
		if len(b.pool.idle) != len(b.pool.all) || b.pool.leases() != 0 {
			t.Errorf("%s: %d of %d sessions are back, %d leases are counted", mode, len(b.pool.idle), len(b.pool.all),
				b.pool.leases())
		}
		b.pool.mu.Unlock()
	}
}

// P8: tokens strictly increase, whichever client gets the key, and whether or not it waited.
func TestTokensRise(t *testing.T) {
	t.Parallel()
	s := shared(t)
	urls := []string{
		s.PostgresURL(), s.PostgresURL() + "&lock_durable=true",
	}
	var (
		wg    sync.WaitGroup
		inner sync.Mutex // locked by the key's holder; TryLock fails if there are two
		last  uint64
		total atomic.Int64
	)
	const least = 50
	end := time.Now().Add(2 * time.Second)
	more := func() bool { // a busy machine needs longer for that many grants
		return time.Now().Before(end) || total.Load() < least && time.Now().Before(end.Add(30*time.Second))
	}
	for i := range 10 {
		b := opened(t, urls[i%len(urls)])
		wg.Go(func() {
			for more() {
				r := req("k", 10*time.Second)
				r.Wait = rand.N(2) == 0
				l, err := b.Acquire(context.Background(), r)
				if errors.Is(err, backend.ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if !inner.TryLock() {
					t.Error("two hold the key")
					return
				}
				if l.Token() <= last {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
				total.Add(1)
				inner.Unlock()
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d grants", total.Load())
	if total.Load() < least {
		t.Errorf("only %d grants", total.Load())
	}
}

// P11: if the server's lock table is full, Acquire returns ErrExhausted. MaxLeases is at most a quarter of the table.
func TestLockTableFull(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "max_connections=20", "max_locks_per_transaction=10", "max_prepared_transactions=0")
	b := opened(t, s.PostgresURL()+"&lock_max_leases=1000")
	c := dialed(t, s.PostgresURL())
	if n := b.Guarantees().MaxLeases; n != 10*20/4 {
		t.Errorf("%d leases of a table of 200", n)
	}
	warm := acquire(t, b, req("warm", time.Minute))
	release(t, acquire(t, b, req("k", time.Minute))) // leaves a second, idle connection
	const many = 100000
	if _, err := c.Exec(context.Background(), "SELECT pg_advisory_lock(i) FROM generate_series(1, $1::int) i",
		many); code(err) != codeOutOfMemory {
		t.Fatalf("filling the lock table: %v", err)
	}
	for i := range 4 { // on the idle connection, then on new ones
		r := req("k", time.Minute)
		r.Wait = i%2 == 0
		if _, err := b.Acquire(context.Background(), r); !errors.Is(err, ErrExhausted) {
			t.Errorf("acquire when the lock table is full: %v", err)
		}
	}
	if _, err := c.Exec(context.Background(), "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, b, req("k", time.Minute)))
	release(t, warm)
}

// If no connection is free, Acquire returns ErrExhausted, and the held leases can still be renewed and released.
// Waiters that find no free connection are granted the key later.
func TestConnectionsUsedUp(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for mode, params := range variants {
		b, other := opened(t, s.PostgresURL()+params+"&lock_max_leases=4"), opened(t, s.PostgresURL()+params)
		key := func(i int) string { return fmt.Sprint(mode, i) }
		var held []backend.Lease
		for i := range 4 {
			held = append(held, acquire(t, b, req(key(i), time.Minute)))
		}
		if _, err := b.Acquire(context.Background(), req("k", time.Minute)); !errors.Is(err, ErrExhausted) ||
			!errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s: a fifth lease of 4: %v", mode, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		if _, err := b.Acquire(ctx, waiting("k", time.Minute)); !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, backend.ErrHeld) {
			t.Errorf("%s: a fifth lease of 4, which waits for a free key: %v", mode, err)
		}
		cancel()
		line := startAcquire(context.Background(), b, waiting("k", time.Minute))
		if h, err := b.Inspect(context.Background(), key(0)); err != nil || !h.Held() {
			t.Errorf("%s: inspect without a free connection: %+v, %v", mode, h, err)
		}
		for _, l := range held {
			if err := l.Renew(context.Background(), time.Minute); err != nil {
				t.Error(err)
			}
			release(t, l)
		}
		release(t, granted(t, line, soon).Lease)
		busy := acquire(t, other, req("busy", time.Minute))
		var waits []<-chan outcome
		for range 6 {
			waits = append(waits, startAcquire(context.Background(), b, waiting("busy", time.Minute)))
		}
		release(t, acquire(t, b, waiting("free", time.Minute)))
		release(t, busy)
		var wg sync.WaitGroup
		for _, done := range waits {
			wg.Go(func() {
				o := <-done
				if o.Err != nil {
					t.Errorf("%s: a waiter: %v", mode, o.Err)
					return
				}
				if err := o.Lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// Inspect shows the session of a lock that another tool holds.
func TestInspectForeign(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL())
	c := dialed(t, s.PostgresURL()+"&application_name=migrate")
	_ = query[string](t, c, "SELECT pg_advisory_lock($1)::text", int64(hashOf("k")))
	h, err := b.Inspect(context.Background(), "k")
	if want := fmt.Sprintf("unknown@migrate:%d", c.PgConn().PID()); err != nil || h.Owner != want {
		t.Errorf("%+v, %v, want %s", h, err, want)
	}
	if _, err := b.Acquire(context.Background(), req("k", time.Minute)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("acquire: %v", err)
	}
}

// If a reply is lost, no lock remains on the server.
func TestLostReply(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	p := newProxy(t, s.Addr)
	b := opened(t, s.via(p.Addr)+brief)
	release(t, acquire(t, b, req("k", time.Minute)))
	for i := range 4 {
		p.set(func(p *proxy) { p.mute = true })
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		r := req("k", time.Minute)
		r.Wait, r.Shared = i%2 == 1, i/2 == 1
		if _, err := b.Acquire(ctx, r); err == nil {
			t.Error("granted without an answer")
		}
		cancel()
		p.set(func(p *proxy) { p.mute = false })
		until(t, 2*soon, "no lock is left", func() bool { return locks(t, c) == 0 })
		release(t, acquire(t, b, req("k", time.Minute)))
	}
	for _, shared := range []bool{false, true} {
		r := req("k", time.Minute)
		r.Shared = shared
		l := acquire(t, b, r)
		p.set(func(p *proxy) { p.mute = true })
		if err := l.Release(context.Background()); err == nil {
			t.Error("released without an answer")
		}
		p.set(func(p *proxy) { p.mute = false })
		until(t, 2*soon, "no lock is left", func() bool { return locks(t, c) == 0 })
	}
}

// With Durable, tokens increase across crashes of the server.
func TestTokensOutliveCrash(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "synchronous_commit=off") // the store overrides this setting
	var last uint64
	for range 3 {
		b := opened(t, s.PostgresURL()+"&lock_durable=true")
		for i := range 50 {
			r := req("k", time.Minute)
			r.Wait = i%2 == 0
			l := acquire(t, b, r)
			if l.Token() <= last {
				t.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			release(t, l)
		}
		s.Kill()
		s.Start()
	}
}

// Capacity is the number of connections that the server still accepts: Debian's 100, minus three for superusers, minus
// the open connections.
func TestCapacity(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "max_connections=100")
	b := opened(t, s.PostgresURL())
	before, err := b.Capacity(t.Context())
	if err != nil || before < 90 || before > 97 {
		t.Fatalf("room for %d, error %v", before, err)
	}
	for i := range 5 {
		acquire(t, b, req(fmt.Sprint(i), time.Minute))
	}
	if after, err := b.Capacity(t.Context()); err != nil || after > before-4 {
		t.Errorf("room for %d, and for %d with 5 leases; error %v", before, after, err)
	}
}

// The open connections of a role count against its connection limit.
func TestCapacityOfRole(t *testing.T) {
	t.Parallel()
	const limit, open = 10, 8
	s := shared(t)
	url := s.role(t, dialed(t, s.PostgresURL()), fmt.Sprint("CONNECTION LIMIT ", limit))
	b := opened(t, url) // one connection, which Capacity uses
	for range open - 1 {
		dialed(t, url)
	}
	if n, err := b.Capacity(t.Context()); n != limit-open || err != nil {
		t.Errorf("room for %d with %d of %d connections open, error %v", n, open, limit, err)
	}
}
