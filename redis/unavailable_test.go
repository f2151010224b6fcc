package redis

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

// If the context of a waiting Acquire ends, the error matches ErrHeld only if the server has replied that the key is
// held.
func TestEndedWaitReportsBusyFromSilent(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	l := acquire(t, b, req("busy", time.Minute))
	try := func(key string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err := b.Acquire(ctx, waiting(key, time.Minute))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the context's error", key, err)
		}
		return err
	}
	for range 2 { // before and after the subscription exists
		err := try("busy")
		// on a busy machine, a reply may be late now and then
		for n := 1; n < attempts && !errors.Is(err, backend.ErrHeld); n++ {
			err = try("busy")
		}
		if !errors.Is(err, backend.ErrHeld) {
			t.Errorf("a busy key: %v, want ErrHeld", err)
		}
	}
	release(t, l)
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	if err := try("free"); errors.Is(err, backend.ErrHeld) {
		t.Errorf("a silent server: %v, which is not ErrHeld", err)
	}
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	p.Cut()
}

// If a request exceeds the Backend's own time limit, or the server cannot be reached, the error is ErrUnavailable and
// not a context error.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, backend.ErrUnavailable) || kit.IsContextError(err) || errors.Is(err, backend.ErrHeld) {
			t.Errorf("%s: %v, want ErrUnavailable alone", what, err)
		}
	}
	for what, addr := range map[string]string{"silent": silent.Addr().String(), "closed": closed} {
		_, err := openURL(context.Background(), "redis://"+addr+"?timeout=300ms")
		check("open, "+what, err)
	}
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	var b *Backend
	until(t, soon, "the server answers in time", func() bool {
		b, err = openURL(context.Background(), s.at(p.Addr)+"?timeout=300ms")
		return err == nil
	})
	defer b.Close()
	var l backend.Lease
	until(t, soon, "the server answers in time", func() bool {
		l, err = b.Acquire(context.Background(), req("k", time.Minute))
		return err == nil
	})
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	_, err = b.Acquire(context.Background(), req("free", time.Minute))
	check("acquire", err)
	_, err = b.Inspect(context.Background(), "k")
	check("inspect", err)
	check("renew", l.Renew(context.Background(), time.Minute))
	check("renew of a batch", b.RenewBatch(context.Background(), []backend.Renewal{{Lease: l, TTL: time.Minute}})[0])
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	p.Cut()
	until(t, 4*soon, "the release is answered in time", func() bool { return l.Release(context.Background()) == nil })
}

// If its context ends during the request, a renewal returns the context's error, and not ErrUnavailable.
func TestEndedRenewal(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	l := acquire(t, b, req("k", time.Minute))
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	defer p.Cut()
	for what, renew := range map[string]func(context.Context) error{
		"Renew": func(ctx context.Context) error { return l.Renew(ctx, time.Minute) },
		"RenewBatch": func(ctx context.Context) error {
			return b.RenewBatch(ctx, []backend.Renewal{{Lease: l, TTL: time.Minute}})[0]
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := renew(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s: %v, want the context's error", what, err)
		}
	}
}

// A server that is read-only for a while, as a demoted master is until its clients have found the new one, does not end
// a wait, and is ErrUnavailable for other calls.
func TestReadOnlyForAWhile(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *servers.Server{
		"usual": func(t *testing.T) *servers.Server { return servers.Redis(t) },
		"redis-6.0": func(t *testing.T) *servers.Server { // its error replies to scripts look different
			storetest.Long(t, "another release of Redis")
			return redistest.Version(t, "redis-6.0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			c := redistest.Raw(t, s.Addr)
			b := opened(t, "redis://"+s.Addr)
			l := acquire(t, b, req("k", time.Hour))
			done := queueUp(t, b, waiting("k", time.Minute), 1)
			if err := c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Acquire(t.Context(), req("free", time.Minute)); !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("acquire: %v, want ErrUnavailable", err)
			}
			if err := l.Renew(t.Context(), time.Hour); !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("renew: %v, want ErrUnavailable", err)
			}
			const several = 8 // more requests than one try of the waiter makes
			before := redistest.Commands(t, c)["evalsha"]
			until(t, 4*maxRecheck+soon, "the waiter has been refused twice, or has ended", func() bool {
				return redistest.Commands(t, c)["evalsha"] >= before+several || len(done) > 0
			})
			if len(done) > 0 {
				t.Fatalf("the waiter has ended: %v", (<-done).Err)
			}
			if err := c.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			release(t, l)
			release(t, granted(t, done, maxRecheck+soon).Lease)
		})
	}
}

// A dial that times out is a temporary error, and not a context error.
func TestDialTimeoutPasses(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	_, dial := new(net.Dialer).DialContext(ctx, "tcp", closed)
	for _, err := range []error{dial, context.DeadlineExceeded} { // a dial with TLS returns the second
		got := exchange.Unavailable(t.Context(), err)
		if !exchange.Passing(got) || !errors.Is(got, backend.ErrUnavailable) || kit.IsContextError(got) {
			t.Errorf("%v: %v, passing %v", err, got, exchange.Passing(got))
		}
	}
}
