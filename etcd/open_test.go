package etcd

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func endpoint(b *Backend) string { return b.client.Endpoints()[0] }

func TestTLS(t *testing.T) {
	t.Parallel()
	s := servers.EtcdTLS(t)
	ca := s.CAFile()
	full := "etcds://" + s.Addr + "/locks?" + url.Values{"cacert": {ca}, "cert": {s.CertFile}, "key": {s.KeyFile}}.Encode()
	b := opened(t, full)
	l := acquire(t, b, waiting("k", time.Minute))
	done := queueUp(t, b, waiting("k", 10*time.Second), 1) // uses streams for a watch and a renewal
	if err := l.Renew(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)
	for name, bad := range map[string]string{
		"without TLS":           "etcd://" + s.Addr,
		"authority not trusted": "etcds://" + s.Addr,
		"no client certificate": "etcds://" + s.Addr + "?cacert=" + ca,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if b, err := openURL(ctx, bad); err == nil {
			t.Errorf("%s: opened", name)
			_ = b.Close()
		}
		cancel()
	}
}

func TestAuth(t *testing.T) {
	t.Parallel()
	const password = "sesam/öffne:dich"
	s := servers.EtcdAuth(t, "worker", password, "locks/")
	at := func(user, password, path string) string {
		return "etcd://" + url.UserPassword(user, password).String() + "@" + s.Addr + path
	}
	b := opened(t, at("worker", password, "/locks"))
	l := acquire(t, b, waiting("k", time.Minute))
	done := queueUp(t, b, waiting("k", 10*time.Second), 1)
	if err := l.Renew(t.Context(), 2*time.Minute); err != nil {
		t.Error(err)
	}
	if h, err := b.Inspect(t.Context(), "k"); err != nil || h.Owner == "" {
		t.Errorf("inspect: %+v, %v", h, err)
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)

	for name, bad := range map[string]string{
		"wrong password": at("worker", "wrong-"+password, "/locks"), "no user": "etcd://" + s.Addr,
		"no permission": at("worker", password, "/elsewhere"),
	} {
		begun := time.Now()
		b, err := openURL(t.Context(), bad)
		if err == nil {
			t.Errorf("%s: opened", name)
			_ = b.Close()
		} else if strings.Contains(err.Error(), password) || time.Since(begun) > defaultTimeout*9/10 {
			// the request is not repeated
			t.Errorf("%s: after %v: %v", name, time.Since(begun), err)
		}
	}
}

// If a token has expired, the client logs in again, also for streams.
func TestTokenRunsOut(t *testing.T) {
	t.Parallel()
	s := servers.EtcdAuth(t, "worker", "secret", "locks/", "--auth-token-ttl", "1")
	b := opened(t, "etcd://worker:secret@"+s.Addr+"/locks")
	l := acquire(t, b, waiting("k", 20*time.Second))
	release(t, granted(t, queueUp(t, b, waiting("other", 20*time.Second), 0), soon).Lease)
	done := queueUp(t, b, waiting("k", 20*time.Second), 1)
	const rounds = 3
	late := 0
	for range rounds {
		time.Sleep(3 * time.Second) // sleeps: a token is valid for a second after its last use
		if err := l.Renew(t.Context(), 20*time.Second); err != nil {
			t.Errorf("renewal with an old token: %v", err)
		}
		next := queueUp(t, b, waiting("k", 20*time.Second), 2)
		begun := time.Now()
		release(t, l)
		o := granted(t, done, 3*recheck)
		// Without a watch, the waiter reads the queue no sooner than 2 s after the release.
		if took := o.At.Sub(begun); took > 1500*time.Millisecond {
			t.Logf("handed on in %v", took)
			late++
		}
		l, done = o.Lease, next
	}
	if late > 1 { // the first waiter queues with a valid token, and the machine may stand still once
		t.Errorf("%d of %d waiters were late: their watches were refused, and no others made", late, rounds)
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)
}

// Opening an unreachable address returns ErrUnavailable, and not a context error. If the port refuses or the host does
// not exist, it fails at once and reports the reason; if the server is silent, it fails within a limit. If the caller's
// context ends first, the error is the context's.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // connections succeed, but nobody answers them
	const refusing = storetest.NoServer
	silent := l.Addr().String()
	for name, c := range map[string]struct {
		url, reason string
		within      time.Duration
	}{
		"refusing":           {"etcd://" + refusing, "connection refused", soon / 2},
		"refusing, a user":   {"etcd://user:secret-password@" + refusing, "connection refused", soon / 2},
		"refusing, TLS":      {"etcds://" + refusing, "connection refused", soon / 2},
		"no such host":       {"etcd://nowhere.invalid", "nowhere.invalid", soon / 2},
		"silent":             {"etcd://" + silent, "", 2 * soon},
		"silent, a user":     {"etcd://user:secret-password@" + silent, "", 2 * soon},
		"silent or refusing": {"etcd://" + silent + "," + refusing, "", 2 * soon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			b, err := openURL(context.Background(), c.url)
			took := time.Since(begun)
			if err == nil {
				_ = b.Close()
				t.Fatal("opened")
			}
			if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, context.Canceled) ||
				!strings.Contains(err.Error(), c.reason) || strings.Contains(err.Error(), "secret-password") || took > c.within {
				t.Errorf("after %v: %v, want ErrUnavailable within %v, for %q", took, err, c.within, c.reason)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, url := range []string{"etcd://" + silent, "etcd://user:secret-password@" + silent} {
		if _, err := openURL(ctx, url); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("with a context of 100ms: %v", err)
		}
	}
}

// MinTTL is the least TTL that the server grants: a longer election timeout raises it, for a URL and for New.
func TestMinTTLIsTheServers(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, "--election-timeout", "3000")
	b := opened(t, "etcd://"+s.Addr)
	const want = 5 * time.Second // 1.5 times the election timeout, rounded up
	if got := b.Guarantees().MinTTL; got != want {
		t.Errorf("MinTTL %v, want %v", got, want)
	}
	l := acquire(t, b, req("k", time.Second))
	if left := time.Until(l.Deadline()); left <= usualMinTTL {
		t.Errorf("%v left", left)
	}
	release(t, l)
	own := onOwnClient(t, raw(t, s.Addr), nil)
	if got := own.Guarantees().MinTTL; got != want {
		t.Errorf("on a client of the caller's: MinTTL %v, want %v", got, want)
	}
	release(t, acquire(t, own, req("k", time.Second)))
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := New(t.Context(), nil, nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("nil client: %v", err)
	}
	c := raw(t, "127.0.0.1:1")
	for _, o := range []Options{
		{Namespace: "/a"}, {Namespace: "a//b"}, {Namespace: "a/"}, {Namespace: "~a"}, {Namespace: "a/~b"},
		{Timeout: -1}, {Timeout: time.Millisecond},
	} {
		if _, err := New(t.Context(), c, &o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
