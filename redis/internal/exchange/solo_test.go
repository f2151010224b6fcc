package exchange_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

const soon = storetest.Soon

// batcherTo returns a Batcher for the server at addr, with a connection for lone requests. It has sent its first
// request. workers returns the number of its workers that have not ended.
func batcherTo(t *testing.T, addr string) (l *exchange.Batcher, workers func() int32) {
	t.Helper()
	o := redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: -1}
	c := redis.NewClient(&o)
	var running atomic.Int32
	var all sync.WaitGroup
	start := func(f func(context.Context)) bool {
		running.Add(1)
		all.Go(func() {
			defer running.Add(-1)
			f(context.Background())
		})
		return true
	}
	l = exchange.NewBatcher(c, start)
	l.Solo = exchange.NewSolo(&o)
	t.Cleanup(func() {
		_ = c.Close()
		_ = l.Solo.Close()
		all.Wait()
	})
	if err := set(t.Context(), l, "warm"); err != nil {
		t.Fatal(err)
	}
	return l, running.Load
}

func set(ctx context.Context, l *exchange.Batcher, key string) error {
	const timeout = 20 * time.Second // longer than any test waits
	_, err := l.Do(ctx, time.Now().Add(timeout), exchange.Request{Args: []any{"set", key, "x"}})
	return err
}

// A lone request on a connection that hangs ends soon after its caller's context, and delays no other request.
func TestLoneRequestHangs(t *testing.T) {
	t.Parallel()
	p := storetest.NewProxy(t, servers.Redis(t).Addr)
	l, _ := batcherTo(t, p.Addr)
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, _ := l.Solo.Latest()
	done := make(chan error, 1)
	go func() { done <- set(ctx, l, "stuck") }()
	storetest.Until(t, soon, "the request is alone, and on its way", func() bool {
		now, _ := l.Solo.Latest()
		return now == n+1 && p.Taken()
	})
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	begun := time.Now()
	for i := range 5 {
		if err := set(t.Context(), l, fmt.Sprint("k", i)); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(begun); took > soon {
		t.Errorf("5 requests beside a lone request that hangs took %v", took)
	}
	cancel()
	begun = time.Now()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that hung: %v", err)
	}
	if took := time.Since(begun); took > soon {
		t.Errorf("it ended %v after its context", took)
	}
	if err := set(t.Context(), l, "stuck"); err != nil {
		t.Error(err)
	}
}

// If a context ends just as its request ends, the next request is not interrupted.
func TestLateInterrupt(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	admin := redistest.Raw(t, s.Addr)
	p := storetest.NewProxy(t, s.Addr)
	l, _ := batcherTo(t, p.Addr)
	n, conn := l.Solo.Latest()
	answer := make(chan struct{})
	p.Set(func(p *storetest.Proxy) { p.Replies = func([]byte) bool { <-answer; return true } })
	done := make(chan error, 1)
	go func() { done <- set(t.Context(), l, "k") }()
	storetest.Until(t, soon, "the next request has run", func() bool {
		now, _ := l.Solo.Latest()
		return now == n+1 && admin.Exists(t.Context(), "k").Val() == 1
	})
	l.Solo.Interrupt(n - 1) // the request that has ended
	close(answer)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, now := l.Solo.Latest(); now != conn {
		t.Error("the next request's connection was broken")
	}
}

// If the connection for lone requests breaks while it is idle, the next request succeeds on a new one.
func TestLoneConnectionBreaksAtRest(t *testing.T) {
	t.Parallel()
	p := storetest.NewProxy(t, servers.Redis(t).Addr)
	l, _ := batcherTo(t, p.Addr)
	_, conn := l.Solo.Latest()
	p.Cut()
	storetest.Until(t, soon, "the connection has ended at the client", func() bool {
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	})
	if err := set(t.Context(), l, "k"); err != nil {
		t.Error(err)
	}
	if l.SoloFailed() {
		t.Error("the request was sent on the broken connection")
	}
}

// Dialling counts against a lone request's timeout, even if the client's dial timeout is longer.
func TestLoneDialHangs(t *testing.T) {
	t.Parallel()
	const timeout, long = 200 * time.Millisecond, 3 * soon
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := exchange.NewSolo(&redis.Options{ // go-redis ignores contexts when it dials with TLS
		Addr: silent.Addr().String(), TLSConfig: &tls.Config{ServerName: "x"},
		ContextTimeoutEnabled: true, DialTimeout: long, DialerRetries: 1, MaxRetries: -1,
	})
	defer s.Close()
	begun := time.Now()
	err = s.Do(begun.Add(timeout), exchange.Request{Args: []any{"get", "k"}})
	if took := time.Since(begun); err == nil || took > timeout+soon {
		t.Errorf("%v after %v, the timeout is %v", err, took, timeout)
	}
}

// When go-redis itself probes a server that was unreachable, it uses the client's dial timeout, because no request is
// in progress. So lone requests reach the server again.
func TestLoneConnectionComesBack(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	addr := servers.UnusedAddr(t)
	solo := exchange.NewSolo(&redis.Options{
		Addr: addr, DialTimeout: time.Second, ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: -1,
	})
	defer solo.Close()
	request := func(timeout time.Duration) error {
		return solo.Do(time.Now().Add(timeout), exchange.Request{Args: []any{"get", "k"}})
	}
	if err := request(200 * time.Millisecond); err == nil || exchange.IsReply(err) {
		t.Fatalf("no server listens: %v", err)
	}
	time.Sleep(100 * time.Millisecond) // sleeps: go-redis' first probe must fail, too
	storetest.NewProxyAt(t, addr, s.Addr)
	time.Sleep(2500 * time.Millisecond) // sleeps: go-redis probes once a second
	storetest.Until(t, soon, "a lone request reaches the server, which is back for seconds", func() bool {
		err := request(soon)
		return errors.Is(err, redis.Nil)
	})
}

// Close returns nil even if the end of a request's context has just closed the connection, which the request still uses.
func TestCloseAfterInterrupt(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	for range 200 { // the request may give the connection back first
		p := storetest.NewProxy(t, s.Addr)
		solo := exchange.NewSolo(&redis.Options{Addr: p.Addr, DialerRetries: 1, MaxRetries: -1})
		request := exchange.Request{Args: []any{"set", "k", "x"}}
		if err := solo.Do(time.Now().Add(soon), request); err != nil {
			t.Fatal(err)
		}
		p.Set(func(p *storetest.Proxy) { p.Silent = true })
		done := make(chan error, 1)
		go func() { done <- solo.Do(time.Now().Add(soon), request) }()
		storetest.Until(t, soon, "the request is sent", p.Taken)
		n, _ := solo.Latest()
		solo.Interrupt(n)
		if err := solo.Close(); err != nil {
			t.Fatal(err)
		}
		<-done
	}
}
