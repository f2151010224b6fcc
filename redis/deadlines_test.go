package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
)

// inTime fails the test unless f returns an error no later than soon after timeout.
func inTime(t *testing.T, timeout time.Duration, f func() error) {
	t.Helper()
	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err == nil {
			t.Errorf("it succeeds after %v, the timeout is %v", time.Since(begun), timeout)
		}
	case <-time.After(timeout + soon):
		t.Fatalf("no end, with a timeout of %v", timeout)
	}
}

// Dialling counts against the request's timeout, even if the client's dial timeout is longer.
func TestDialHangs(t *testing.T) {
	t.Parallel()
	const timeout, long = 200 * time.Millisecond, 3 * soon
	t.Run("on a caller's client", func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		c := redis.NewClient(&redis.Options{
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				select {
				case <-ctx.Done():
				case <-over:
				}
				return nil, errors.New("no connection")
			},
			ContextTimeoutEnabled: true, DialTimeout: long, DialerRetries: 1, MaxRetries: -1,
		})
		defer c.Close()
		for _, replicas := range []int{0, 1} { // with replicas, WAIT follows the request
			b, err := onClient(c, &Options{Timeout: timeout, MinReplicas: replicas})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			inTime(t, timeout, func() error {
				_, err := b.Acquire(context.Background(), req("k", time.Minute))
				return err
			})
		}
	})
}

// A waiter survives an outage in which dials time out.
func TestWaiterOutlivesDialTimeouts(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	var away atomic.Bool
	c := s.client(t, redis.Options{
		Addr: p.Addr, ContextTimeoutEnabled: true, DialTimeout: 100 * time.Millisecond, DialerRetries: 1, MaxRetries: -1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if away.Load() {
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	b, err := onClient(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	acquire(t, opened(t, s.URL), req("k", time.Second)) // expires by itself
	done := queueUp(t, b, waiting("k", time.Minute), 1)
	away.Store(true)
	p.Cut()
	const outage = 4 * time.Second // long enough for several failed attempts
	select {
	case o := <-done:
		t.Fatalf("after %v of an outage the waiter has ended: %v", outage, o.Err)
	case <-time.After(outage):
	}
	away.Store(false)
	release(t, granted(t, done, maxRecheck+soon).Lease)
}

// A waiter's patience counts from the first failure of an outage, not from the start of the wait.
func TestPatienceCountsFromOutage(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	holder := acquire(t, opened(t, s.URL), req("k", time.Hour))
	done := queueUp(t, b, waiting("k", exchange.LeastPatience), 1)
	const quiet = 4 * time.Second // with the outage, longer than the waiter's patience
	time.Sleep(quiet)             // sleeps: the part of the wait before the outage
	p.Refuse(true)
	p.Cut()
	select {
	case o := <-done:
		t.Fatalf("the waiter did not outlive the outage: %v", o.Err)
	case <-time.After(exchange.LeastPatience - 2*time.Second):
	}
	p.Refuse(false)
	release(t, holder)
	release(t, granted(t, done, maxRecheck+soon).Lease)
}

// Requests time out even if the client sets no deadlines on its connections.
func TestClientWithoutDeadlines(t *testing.T) {
	t.Parallel()
	const timeout, none = 3 * time.Second, -2
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	c := redis.NewClient(&redis.Options{
		DB: s.Number, Addr: p.Addr, ContextTimeoutEnabled: true, ReadTimeout: none, WriteTimeout: none, MaxRetries: -1,
	})
	defer c.Close()
	b, err := onClient(c, &Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	release(t, acquire(t, b, req("k", time.Minute)))
	until(t, soon, "the next request goes alone", b.leases.Idle)
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	defer p.Cut()
	inTime(t, timeout, func() error {
		_, err := b.Acquire(context.Background(), req("k", time.Minute))
		return err
	})
}

// List ends with its context, and a page of keys with the request timeout, even if the client ignores deadlines.
func TestListOfServerThatHangs(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b, err := New(t.Context(), s.client(t, redis.Options{Addr: p.Addr}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	defer func() {
		p.Set(func(p *storetest.Proxy) { p.Silent = false })
		p.Cut()
	}()
	for limit, want := range map[time.Duration]error{
		100 * time.Millisecond: context.DeadlineExceeded, time.Minute: backend.ErrUnavailable,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		inTime(t, exchange.DefaultTimeout, func() error { // go-redis' own attempts take longer
			_, err := b.List(ctx, "")
			if !errors.Is(err, want) {
				t.Errorf("within %v: %v, want %v", limit, err, want)
			}
			return err
		})
	}
}

// Releases that hang delay Close only for its grace, with a single server and with a cluster.
func TestCloseBesideReleasesThatHang(t *testing.T) {
	t.Parallel()
	for scheme, start := range map[string]func(t *testing.T) []*servers.Server{
		"redis://":         func(t *testing.T) []*servers.Server { return []*servers.Server{servers.Redis(t)} },
		"redis+cluster://": func(t *testing.T) []*servers.Server { return cluster(t) },
	} {
		t.Run(strings.TrimSuffix(scheme, "://"), func(t *testing.T) {
			t.Parallel()
			nodes := start(t)
			b := opened(t, scheme+nodes[0].Addr+"?timeout=20s")
			leases := []backend.Lease{acquire(t, b, req("k0", time.Minute)), acquire(t, b, req("k1", time.Minute))}
			for _, n := range nodes {
				n.Freeze()
				defer n.Thaw()
			}
			done := make(chan error, len(leases))
			for _, l := range leases {
				go func() { done <- l.Release(context.Background()) }()
			}
			until(t, soon, "the releases have begun", func() bool { return b.leases.Len() == 0 })
			begun := time.Now()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 3*time.Second+soon {
				t.Errorf("Close took %v", took)
			}
			for range leases {
				if err := <-done; !errors.Is(err, backend.ErrClosed) {
					t.Errorf("release: %v, want ErrClosed", err)
				}
			}
		})
	}
}
