package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// Connections that were opened for a peak are closed after they have been idle, except one.
func TestConnectionsAreGivenBack(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	sessions := func() int {
		return query[int](t, c, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'anylock' AND datname = "+
			"current_database()")
	}
	for mode, params := range variants {
		b := opened(t, s.PostgresURL()+params)
		b.pool.mu.Lock()
		b.pool.closeAfter = 300 * time.Millisecond
		b.pool.mu.Unlock()
		var peak []backend.Lease
		for range 20 {
			peak = append(peak, acquire(t, b, req(backend.NewOwner(), time.Minute)))
		}
		if n := sessions(); n < 20 {
			t.Fatalf("%s: %d sessions at the peak", mode, n)
		}
		kept := peak[0]
		for _, l := range peak[1:] {
			release(t, l)
		}
		until(t, soon, "one connection for the lease, and one at rest", func() bool { return sessions() == 2 })
		if err := kept.Renew(context.Background(), time.Minute); err != nil {
			t.Error(err)
		}
		release(t, kept)
		release(t, acquire(t, b, req("k", time.Minute)))
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		until(t, soon, "none is left", func() bool { return sessions() == 0 })
	}
}

// Waiters for a connection are served in order of arrival. Only the order of the first two is checked.
func TestLineForConnections(t *testing.T) {
	t.Parallel()
	b := opened(t, gentleURL(t)+"&lock_max_leases=4")
	var held []backend.Lease
	for range 4 {
		held = append(held, acquire(t, b, req(backend.NewOwner(), time.Minute)))
	}
	order := make(chan int, 10)
	for i := range 10 {
		go func() {
			l, err := b.Acquire(context.Background(), waiting(fmt.Sprint("k", i), time.Minute))
			order <- i
			if err != nil {
				t.Error(err)
				return
			}
			if err := l.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		until(t, soon, "it stands in the line", func() bool {
			b.pool.mu.Lock()
			defer b.pool.mu.Unlock()
			return len(b.pool.waiting) > min(i, 1) // the first two are in line, in order; the others may arrive in any order
		})
	}
	release(t, held[0])
	first, second := <-order, <-order
	if first != 0 || second != 1 {
		t.Errorf("served %d and %d first", first, second)
	}
	for range 8 {
		<-order
	}
	for _, l := range held[1:] {
		release(t, l)
	}
}

// A waiter that found no free connection many times still repeats an attempt whose idle connection had ended.
func TestCrowdedWaiterMeetsEndedSession(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	var made atomic.Int32
	b, err := New(t.Context(), parsed(t, s.role(t, c, "")), &Options{MaxLeases: leastLeases,
		BeforeConnect: func(context.Context, *pgx.ConnConfig) error { made.Add(1); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	unwatch(b)
	limit := func(n int) {
		if _, err := c.Exec(t.Context(), fmt.Sprintf("ALTER ROLE %s_role CONNECTION LIMIT %d", s.name, n)); err != nil {
			t.Fatal(err)
		}
	}
	limit(0)
	h := &checkout{query: true, wait: true}
	ended, err := b.pool.checkOut(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	line := startAcquire(t.Context(), b, waiting("k", time.Minute))
	until(t, 2*soon, "the waiter has tried often", func() bool { return made.Load() > leastLeases+3 })
	_ = query[bool](t, c, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", ended.conn.PID()))
	b.pool.drop(h)
	until(t, soon, "the waiter has met the ended session", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return ended.dead
	})
	limit(-1)
	release(t, granted(t, line, 2*soon).Lease)
}

// If the server has no free connection, an Acquire that may not wait returns ErrExhausted, and opening fails. A waiter
// gets the next connection that becomes free.
func TestServerHasNoConnection(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "max_connections=12", "superuser_reserved_connections=3")
	c := dialed(t, s.PostgresURL())
	for _, sql := range []string{"CREATE ROLE crowd LOGIN", "GRANT ALL ON DATABASE postgres TO crowd"} {
		if _, err := c.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	url := "postgres://crowd@" + s.Addr + "/postgres?sslmode=disable"
	b := opened(t, url)
	var held []backend.Lease
	var err error
	for range 20 {
		var l backend.Lease
		if l, err = b.Acquire(context.Background(), req(backend.NewOwner(), time.Minute)); err != nil {
			break
		}
		held = append(held, l)
	}
	if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, ErrExhausted) || code(err) != codeTooMany {
		t.Fatalf("%d leases, then %v", len(held), err)
	}
	if _, err := openURL(context.Background(), url); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("open: %v, want ErrUnavailable", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.Acquire(ctx, waiting("k", time.Minute)); !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, backend.ErrHeld) {
		t.Errorf("a wait that ends: %v", err)
	}
	line := startAcquire(context.Background(), b, waiting("k", time.Minute))
	select {
	case o := <-line:
		t.Errorf("a wait without a connection ended: %v", o.Err)
	case <-time.After(100 * time.Millisecond): // long enough to show that the wait continues
	}
	release(t, held[0])
	release(t, granted(t, line, soon).Lease)
	for _, l := range held[1:] {
		release(t, l)
	}
}
