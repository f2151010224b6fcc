package memcached

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"memcached://":     "localhost:11211",
		"memcached://h":    "h:11211",
		"MEMCACHED://h:1/": "h:1",
		"memcached://10.0.0.1:11212?timeout=500ms": "10.0.0.1:11212",
		"memcached://[::1]":                        "[::1]:11211",
		"memcached://[::1]:5?max_idle_conns=7":     "[::1]:5",
		"memcacheds://h?cacert=/ca.pem":            "h:11211",
	} {
		if u, err := storetest.Parse(url); err != nil || !slices.Equal(u.Hosts, []string{want}) {
			t.Errorf("%s: %v, %v; want %s", url, u.Hosts, err, want)
		}
	}
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+"?max_idle_conns=7&timeout=3s")
	if want := (Options{Timeout: 3 * time.Second, MaxConns: 7}); !reflect.DeepEqual(b.options, want) {
		t.Errorf("options %+v", b.options)
	}
	if b := opened(t, "memcached://"+s.Addr); !reflect.DeepEqual(b.options,
		Options{Timeout: defaultTimeout, MaxConns: defaultConns}) {
		t.Errorf("options by default %+v", b.options)
	}
}

// Bad URLs are rejected before any request, and the errors show no password.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"memcached://h?cacert=/ca.pem", "memcacheds://h?key=/k.pem", "memcacheds://h?cacert=/no-such-file",
		"memcacheds://h?tls=1",
		"memcacheds://h?cert=/no-such-file&key=/no-such-file", "memcacheds://user:hunter2@h", "memcached:h",
		"memcached://a,b", "memcached://a:1,b:2", "memcached://h/path",
		"memcached://user:hunter2@h", "memcached://@h", "memcached://h:0", "memcached://h:99999", "memcached://:11211",
		"memcached://::1",
		"memcached://h?timeout=0", "memcached://h?timeout=x", "memcached://h?timeout=-1s",
		"memcached://h?timeout=1s&timeout=2s",
		"memcached://h?max_idle_conns=0", "memcached://h?max_idle_conns=x", "memcached://h?ttl=30s", "memcached://h?lock_x=1",
		"memcached://h?lock_namespace=a", "memcached://h#x", "memcached://h?%zz=1", "memcached://h?timeout=%zz",
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

// Opening fails if the server cannot keep locks. The error names the reason.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections but never replies
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	const closed = storetest.NoServer
	noCAS := servers.Memcached(t, "-C")
	for url, hint := range map[string]string{
		"memcached://" + closed:                                 "refused",
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
	for addr, want := range map[string]error{noCAS.Addr: backend.ErrUnsupported, closed: backend.ErrUnavailable} {
		if b, err := New(t.Context(), addr, nil); !errors.Is(err, want) {
			t.Errorf("New for %s: %v, want %v", addr, err, want)
			if err == nil {
				_ = b.Close()
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := openURL(ctx, "memcached://"+silent.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open with a deadline: %v", err)
	}
}

// A host name with several addresses of one family is rejected, because they may belong to several servers.
func TestOneAddressOfEachFamily(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	for _, list := range [][]netip.Addr{
		{addr("10.0.0.1")}, {addr("127.0.0.1"), addr("::1")}, {addr("10.0.0.1"), addr("::ffff:10.0.0.1")},
		{addr("::1"), addr("::1")},
	} {
		if err := oneOfEach("h", list); err != nil {
			t.Errorf("%v: %v", list, err)
		}
	}
	for _, list := range [][]netip.Addr{{addr("10.0.0.1"), addr("10.0.0.2")},
		{addr("fd00::1"), addr("10.0.0.1"), addr("fd00::2")}} {
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
	s := servers.Memcached(t)
	for _, addr := range []string{"", "host", "::1"} {
		if _, err := New(t.Context(), addr, nil); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("address %q: %v", addr, err)
		}
	}
	for _, o := range []*Options{{Timeout: -1}, {MaxConns: -1}, {MaxConns: maxConns + 1}} {
		if _, err := New(t.Context(), s.Addr, o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", *o, err)
		}
	}
	var dials atomic.Int32
	b, err := New(t.Context(), s.Addr,
		&Options{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}})
	if err != nil {
		t.Fatal(err)
	}
	l := acquire(t, b, req("k", time.Minute))
	if dials.Load() == 0 {
		t.Error("the connection is not by DialContext")
	}
	isHeld(t, opened(t, "memcached://"+s.Addr), "k") // New and a URL use the same locks
	release(t, l)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
