package memcached

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/tlsurl"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]target{
		"memcached://h":    {addr: "h:11211", conns: defaultConns, options: Options{defaultNamespace, defaultTimeout}},
		"MEMCACHED://h:1/": {addr: "h:1", conns: defaultConns, options: Options{defaultNamespace, defaultTimeout}},
		"memcached://10.0.0.1:11212?timeout=500ms":        {addr: "10.0.0.1:11212", conns: defaultConns, options: Options{defaultNamespace, 500 * time.Millisecond}},
		"memcached://[::1]":                               {addr: "[::1]:11211", conns: defaultConns, options: Options{defaultNamespace, defaultTimeout}},
		"memcached://[::1]:5?max_idle_conns=7&timeout=3s": {addr: "[::1]:5", conns: 7, options: Options{defaultNamespace, 3 * time.Second}},
		"memcacheds://h?cacert=/ca.pem": {
			addr: "h:11211", conns: defaultConns, secure: true, files: tlsurl.Files{CA: "/ca.pem"},
			options: Options{defaultNamespace, defaultTimeout},
		},
		"memcached://h?lock_namespace=app-1&timeout=1m":      {addr: "h:11211", conns: defaultConns, options: Options{"app-1", time.Minute}},
		"memcached://h.example.org:11211?lock_namespace=%40": {addr: "h.example.org:11211", conns: defaultConns, options: Options{"@", defaultTimeout}},
	} {
		if got, err := parseURL(url); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", url, got, err, want)
		}
	}
}

// Bad URLs are refused before any request, and without their secrets.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"memcached://h?cacert=/ca.pem", "memcacheds://h?key=/k.pem", "memcacheds://h?cacert=/no-such-file", "memcacheds://h?tls=1",
		"memcacheds://h?cert=/no-such-file&key=/no-such-file", "memcacheds://user:hunter2@h", "memcached:", "memcached:h", "memcached://", "memcached:///", "memcached://a,b", "memcached://a:1,b:2", "memcached://h/path",
		"memcached://user:hunter2@h", "memcached://@h", "memcached://h:0", "memcached://h:99999", "memcached://:11211", "memcached://::1",
		"memcached://h?timeout=0", "memcached://h?timeout=x", "memcached://h?timeout=-1s", "memcached://h?timeout=1s&timeout=2s",
		"memcached://h?max_idle_conns=0", "memcached://h?max_idle_conns=x", "memcached://h?ttl=30s", "memcached://h?lock_x=1",
		"memcached://h?lock_namespace=a%20b", "memcached://h?lock_namespace=", "memcached://h#x", "memcached://h?%zz=1", "memcached://h?timeout=%zz",
	} {
		b, err := openURL(context.Background(), url)
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", url, err)
		}
		if b != nil {
			_ = b.Close()
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is in %q", url, err)
		}
	}
}

// A server that cannot keep locks is refused at opening, with a reason.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	noCAS := servers.Memcached(t, "-C")
	for url, hint := range map[string]string{
		"memcached://" + closed.Addr().String():                 "refused",
		"memcached://" + silent.Addr().String() + "?timeout=1s": "no answer",
		"memcached://" + noCAS.Addr:                             "compare-and-swap",
		"memcached://host.invalid":                              "host.invalid",
		"memcached://" + silent.Addr().String() + patient:       "no answer",
	} {
		begun := time.Now()
		b, err := openURL(context.Background(), url)
		if err == nil {
			_ = b.Close()
			t.Errorf("%s: opened", url)
			continue
		}
		if !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: %q, want it to speak of %q", url, err, hint)
		}
		if unsupported := url == "memcached://"+noCAS.Addr; errors.Is(err, backend.ErrUnavailable) == unsupported ||
			errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", url, err)
		}
		if took := time.Since(begun); took > openTimeout+2*time.Second {
			t.Errorf("%s: refused after %v", url, took)
		}
	}
	if _, err := openURL(context.Background(), "memcached://"+noCAS.Addr); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("a server without compare-and-swap: %v, want ErrUnsupported", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := openURL(ctx, "memcached://"+silent.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open with a deadline: %v", err)
	}
}

// A name with several addresses may be several servers.
func TestOneAddressOfEachFamily(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	for _, list := range [][]netip.Addr{
		{addr("10.0.0.1")}, {addr("127.0.0.1"), addr("::1")}, {addr("10.0.0.1"), addr("::ffff:10.0.0.1")}, {addr("::1"), addr("::1")},
	} {
		if err := oneOfEach("h", list); err != nil {
			t.Errorf("%v: %v", list, err)
		}
	}
	for _, list := range [][]netip.Addr{{addr("10.0.0.1"), addr("10.0.0.2")}, {addr("fd00::1"), addr("10.0.0.1"), addr("fd00::2")}} {
		if err := oneOfEach("h", list); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%v: %v, want ErrInvalid", list, err)
		}
	}
	s := servers.Memcached(t)
	_, port, _ := net.SplitHostPort(s.Addr)
	release(t, acquire(t, opened(t, "memcached://localhost:"+port), req("k", time.Minute)))
}

func TestNew(t *testing.T) {
	t.Parallel()
	if _, err := New(nil, nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("nil client: %v", err)
	}
	s := servers.Memcached(t)
	c := raw(t, s.Addr)
	for _, o := range []*Options{{Namespace: "a b"}, {Namespace: strings.Repeat("n", 200)}, {Timeout: -1}} {
		if _, err := New(c, o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", *o, err)
		}
	}
	b, err := New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := New(c, &Options{Namespace: "other"})
	if err != nil {
		t.Fatal(err)
	}
	l := acquire(t, b, req("k", time.Minute))
	isHeld(t, opened(t, "memcached://"+s.Addr), "k")     // by URL and by client, it is the same lock
	release(t, acquire(t, other, req("k", time.Minute))) // namespaces are apart
	release(t, l)
	for range 2 {
		if err := errors.Join(b.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	}
	if err := c.Ping(); err != nil {
		t.Errorf("the caller's client after Close: %v", err)
	}
	none, err := New(memcache.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Acquire(context.Background(), req("k", time.Minute)); !errors.Is(err, memcache.ErrNoServers) {
		t.Errorf("a client without servers: %v", err)
	}
	_ = none.Close()
}
