package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/servers"
)

// inTime fails the test unless f fails, and soon after its timeout.
func inTime(t *testing.T, timeout time.Duration, f func() error) {
	t.Helper()
	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if took := time.Since(begun); err == nil || took > timeout+time.Second {
			t.Errorf("%v after %v, the timeout is %v", err, took, timeout)
		}
	case <-time.After(soon):
		t.Fatal("no end")
	}
}

// A request that needs a new connection keeps to its time, however long its client may dial.
func TestDialHangs(t *testing.T) {
	const timeout, long = 200 * time.Millisecond, 3 * time.Second
	t.Run("alone", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0") // says nothing
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := newSolo(&redis.Options{ // go-redis' dial by TLS ignores contexts
			Addr: l.Addr().String(), TLSConfig: &tls.Config{ServerName: "x"},
			ContextTimeoutEnabled: true, DialTimeout: long, DialerRetries: 1, MaxRetries: -1,
		})
		defer s.client.Close()
		inTime(t, timeout, func() error {
			_, err := s.do(context.Background(), time.Now().Add(timeout), inspection)
			return err
		})
	})
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
		for _, replicas := range []int{0, 1} { // with replicas each request goes by itself
			b, err := New(c, &Options{Timeout: timeout, MinReplicas: replicas})
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

var inspection = request{script: inspectScript, keys: []string{"{x}lock", "{x}queue"}}

// go-redis' own probes of a server that was away have their own time: no request is under way then.
func TestLoneConnectionComesBack(t *testing.T) {
	s := servers.Redis(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	solo := newSolo(&redis.Options{
		Addr: addr, DialTimeout: time.Second, ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: -1,
	})
	defer solo.client.Close()
	ask := func() error {
		_, err := solo.do(context.Background(), time.Now().Add(200*time.Millisecond), inspection)
		return err
	}
	if err := ask(); err == nil {
		t.Fatal("nobody answers, and it succeeds")
	}
	time.Sleep(100 * time.Millisecond) // the first probe finds nobody, too
	newProxyAt(t, addr, s.Addr)
	time.Sleep(2500 * time.Millisecond) // it probes once in a second
	if err := ask(); err != nil {
		t.Errorf("a lone request, with the server back for seconds: %v", err)
	}
}

// A client that sets no deadlines on its connections is not relied upon to end requests.
func TestClientWithoutDeadlines(t *testing.T) {
	const timeout, none = 200 * time.Millisecond, -2
	s := servers.Redis(t)
	p := newProxy(t, s.Addr)
	c := redis.NewClient(&redis.Options{
		Addr: p.Addr, ContextTimeoutEnabled: true, ReadTimeout: none, WriteTimeout: none, MaxRetries: -1,
	})
	defer c.Close()
	b, err := New(c, &Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	release(t, acquire(t, b, req("k", time.Minute)))
	until(t, soon, "the next request goes alone", b.calls.Idle)
	p.set(func(p *proxy) { p.silent = true })
	defer p.cut()
	inTime(t, timeout, func() error {
		_, err := b.Acquire(context.Background(), req("k", time.Minute))
		return err
	})
}
