package lockhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
)

// Keys may have any bytes, and a key that looks like a path or an escaped key names no other key.
func TestKeysOfAnyBytes(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		var every strings.Builder
		for b := range 256 {
			every.WriteByte(byte(b))
		}
		keys := []string{"a", "A", "a/b", "a%2Fb", "renew", "a/renew", ".", "..", "a//b", "/", " ", "?", "#", "+", "é😀",
			"\x00", "\xff\xfe",
			every.String(), strings.Repeat("k", 1024), strings.Repeat("\xff", 1024)}
		tokens := make(map[string]string)
		for _, key := range keys {
			a := w.want(200, "PUT", of(key, "owner", "a"), "")
			if before := tokens[a.body.Token]; before != "" {
				t.Errorf("%q is the key %q", key, before)
			}
			tokens[a.body.Token] = key
			if got := w.want(200, "GET", a.body.Path, ""); got.body.Token != a.body.Token {
				t.Errorf("%s is not the path of %q", a.body.Path, key)
			}
		}
		if list := w.want(200, "GET", "/v1/locks", ""); len(list.body.Locks) != len(keys) {
			t.Errorf("%d keys are listed, want %d", len(list.body.Locks), len(keys))
		}
		for _, key := range keys {
			w.want(204, "DELETE", of(key, "owner", "a"), "")
		}
		w.want(400, "PUT", of(strings.Repeat("k", 1025), "owner", "a"), "")
		w.want(404, "PUT", "/v1/locks/a/b?owner=a", "")
		w.want(404, "PUT", "/v1/locks/?owner=a", "")
		w.want(400, "PUT", of("k"), "")
		w.want(400, "PUT", of("k", "owner", strings.Repeat("o", 129)), "")
		w.want(400, "PUT", of("k", "owner", "a", "ttl_ms", "3600001"), "")
		w.want(405, "PATCH", of("k", "owner", "a"), "")
	})
}

func rights(prefix string, actions ...lockhttp.Action) []lockhttp.Right {
	return []lockhttp.Right{{Prefix: prefix, Allow: actions}}
}

// A client may do only what its rights allow, to keys with their prefixes.
func TestRights(t *testing.T) {
	const ci, ops, other = "token-of-ci-0123456789", "token-of-ops-0123456789", "token-of-other-0123456789"
	o := lockhttp.Options{Clients: []lockhttp.Client{
		{Name: "ci", Token: ci, Rights: rights("ci/", lockhttp.Take, lockhttp.List)},
		{Name: "ops", Token: ops, Rights: rights("", lockhttp.List, lockhttp.Break)},
		{Name: "other", Token: other, Rights: rights("ci/", lockhttp.Take)},
	}}
	inBubble(t, o, func(w *world) {
		as := func(token string) *world {
			w.token = token
			return w
		}
		as("").want(401, "PUT", of("ci/a", "owner", "o"), "")
		as("token-of-ci-012345678").want(401, "PUT", of("ci/a", "owner", "o"), "")
		as("").want(401, "GET", "/v1/status", "")
		as("").want(401, "GET", "/metrics", "")
		as("").want(200, "GET", "/v1/health", "")
		as(ci).want(403, "PUT", of("prod/a", "owner", "o"), "")
		as(ci).want(200, "PUT", of("ci/a", "owner", "o"), "")
		as(ci).want(403, "POST", path("ci/a", "/break", "owner", "o"), "")
		as(ops).want(403, "PUT", of("ci/a", "owner", "o"), "")
		// The same owner of another client is another owner.
		held := as(other).want(423, "PUT", of("ci/a", "owner", "o"), "").body.Holder.Owner
		if !strings.HasPrefix(held, "o@ci~") {
			t.Errorf("holder %s", held)
		}
		as(other).want(410, "POST", path("ci/a", "/renew", "owner", "o"), "")
		as(other).want(410, "DELETE", of("ci/a", "owner", "o"), "")
		as(other).want(410, "DELETE", of("ci/a", "owner", "o@ci"), "")
		as(other).want(403, "GET", "/v1/locks?prefix=ci/", "")
		as(ci).want(403, "GET", "/v1/locks?prefix=prod/", "")
		as(ops).want(204, "POST", path("ci/a", "/break", "owner", held), "")
		as(other).want(200, "PUT", of("ci/a", "owner", "o"), "")
		if a := as(ci).want(200, "GET", "/v1/locks", ""); len(a.body.Locks) != 1 {
			t.Errorf("%s", a.text)
		}
		if a := as(other).want(200, "GET", "/v1/status", ""); !strings.Contains(a.text, `"held":[]`) {
			t.Errorf("a client that may not list sees %s", a.text)
		}
	})
}

func TestBadClients(t *testing.T) {
	for name, clients := range map[string][]lockhttp.Client{
		"no proof":     {{Name: "a"}},
		"short token":  {{Name: "a", Token: "short"}},
		"no name":      {{Token: "0123456789abcdef"}},
		"at sign":      {{Name: "a@b", Token: "0123456789abcdef"}},
		"tilde":        {{Name: "a~b", Token: "0123456789abcdef"}},
		"two names":    {{Name: "a", Token: "0123456789abcdef"}, {Name: "a", Token: "0123456789abcdeg"}},
		"same token":   {{Name: "a", Token: "0123456789abcdef"}, {Name: "b", Token: "0123456789abcdef"}},
		"bad hash":     {{Name: "a", TokenSHA256: "12"}},
		"two tokens":   {{Name: "a", Token: "0123456789abcdef", TokenSHA256: strings.Repeat("0", 64)}},
		"wrong action": {{Name: "a", Token: "0123456789abcdef", Rights: rights("", "steal")}},
	} {
		if _, err := lockhttp.New(newLocks(t), lockhttp.Options{Clients: clients}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBadLimits(t *testing.T) {
	for name, o := range map[string]lockhttp.Options{
		"ttl":         {DefaultTTL: -1},
		"long ttl":    {DefaultTTL: time.Minute, MaxTTL: time.Second},
		"longest ttl": {MaxTTL: -1},
		"linger":      {Linger: -1},
		"body":        {MaxBody: -1},
		"waiters":     {MaxWaiters: -1},
		"leases":      {MaxLeasesPerClient: -1},
		"streams":     {MaxWatchers: -1},
	} {
		if _, err := lockhttp.New(newLocks(t), o); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If requests may not wait, a busy key is refused at once.
func TestNoWait(t *testing.T) {
	inBubble(t, lockhttp.Options{MaxWait: -1}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "a"), "")
		start := time.Now()
		w.want(423, "PUT", of("k", "owner", "b", "wait_ms", "60000"), "")
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

// A web page of another origin cannot change anything. It cannot read anything through a host name of its own.
func TestWebPagesAreKeptOut(t *testing.T) {
	inBubble(t, lockhttp.Options{Hosts: []string{"localhost", "127.0.0.1"}}, func(w *world) {
		request := func(host, origin, method, target string) int {
			q, _ := http.NewRequest(method, "http://"+host+target, nil)
			if origin != "" {
				q.Header.Set("Origin", origin)
			}
			r, err := w.client.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			return r.StatusCode
		}
		for _, c := range []struct {
			host, origin string
			want         int
		}{
			{"localhost:7171", "", 200},
			{"127.0.0.1:7171", "http://127.0.0.1:7171", 200},
			{"evil.example:7171", "", 421},
			{"localhost:7171", "http://evil.example", 403},
			{"localhost.:7171", "", 421},
		} {
			if got := request(c.host, c.origin, "PUT", of("k", "owner", "a")); got != c.want {
				t.Errorf("host %s, origin %s: %d, want %d", c.host, c.origin, got, c.want)
			}
		}
		if got := request("evil.example", "", "GET", "/v1/locks"); got != 421 {
			t.Errorf("list: %d", got)
		}
		// A stream on a server that does not know the lease sets the lease's TTL.
		w.stop()
		w.start()
		for _, method := range []string{"GET", "HEAD"} {
			if got := request("localhost:7171", "http://evil.example", method,
				path("k", "/watch", "owner", "a", "ttl_ms", "1")); got != 403 {
				t.Errorf("%s a stream: %d", method, got)
			}
		}
		time.Sleep(time.Second) // sleeps: in fake time
		if got := request("localhost:7171", "", "POST", path("k", "/renew", "owner", "a")); got != 200 {
			t.Errorf("renew: %d", got)
		}
	})
}

// Bodies are limited in size and time.
func TestBodies(t *testing.T) {
	inBubble(t, lockhttp.Options{MaxBody: 100}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "a"), strings.Repeat("x", 100))
		w.want(413, "PUT", of("k", "owner", "a"), strings.Repeat("x", 101))
		conn := w.dial()
		defer conn.Close()
		refused := w.dial()
		defer refused.Close()
		go fmt.Fprintf(refused, "PUT /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nx")
		go fmt.Fprintf(conn, "PUT /v1/locks/slow?owner=a HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nx")
		start := time.Now()
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || r.StatusCode != 408 || time.Since(start) > 11*time.Second {
			t.Errorf("a slow body: %v %v after %v", r, err, time.Since(start))
		}
		_, _ = io.Copy(io.Discard, refused)
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("the connection of a refused request was closed after %v", took)
		}
	})
}

// dial opens a connection for requests that no http.Client would send.
func (w *world) dial() net.Conn {
	conn, err := w.network.dial(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// A connection that sends the head of its request too slowly is closed, even if it never stops sending.
func TestSlowHeads(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		conn := w.dial()
		defer conn.Close()
		var sender sync.WaitGroup
		sender.Go(func() {
			for _, b := range []byte("GET /v1/locks HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 1000)) {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
			t.Error("all was read")
		})
		start := time.Now()
		_, _ = io.Copy(io.Discard, conn)
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("closed after %v", took)
		}
		conn.Close()
		sender.Wait()
	})
}

// If a client does not read its stream, the server soon ends the stream.
func TestSlowReaders(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "a", "ttl_ms", "3600000"), "")
		conn := w.dial()
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "GET /v1/locks/k/watch?owner=a HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, _, watchers, _, _ := w.server.InUse(); watchers != 1 {
			t.Fatalf("%d watchers", watchers)
		}
		time.Sleep(30 * time.Second)
		if _, _, watchers, _, _ := w.server.InUse(); watchers != 0 {
			t.Errorf("%d watchers are left", watchers)
		}
	})
}

// An unreadRecorder is a client that does not read the counts of requests until block returns.
type unreadRecorder struct {
	*httptest.ResponseRecorder
	block func()
}

func (r unreadRecorder) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "anylock_http_requests_total") {
		r.block()
	}
	return len(p), nil
}

// A client that does not read the metrics delays no other reply.
func TestSlowReaderOfMetrics(t *testing.T) {
	server, err := lockhttp.New(newLocks(t), lockhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blocked, released := make(chan struct{}), make(chan struct{})
	slow := unreadRecorder{httptest.NewRecorder(), sync.OnceFunc(func() {
		close(blocked)
		<-released
	})}
	var requests sync.WaitGroup
	defer requests.Wait()
	defer close(released)
	requests.Go(func() { server.ServeHTTP(slow, httptest.NewRequest("GET", "/metrics", nil)) })
	<-blocked
	other := make(chan struct{})
	requests.Go(func() {
		server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/openapi.json", nil))
		close(other)
	})
	select {
	case <-other:
	case <-time.After(5 * time.Second):
		t.Error("another request got no reply")
	}
}

// Ten thousand waiting requests need at most 64 KiB of memory each. All of them get a reply at their limit, and leave
// nothing behind.
func TestTenThousandWaiters(t *testing.T) {
	waiters := 10_000
	if testing.Short() {
		waiters = 1000
	}
	o := lockhttp.Options{MaxWaiters: waiters, MaxWaitersPerClient: waiters, MaxLeasesPerClient: waiters + 2}
	inBubble(t, o, func(w *world) {
		w.want(200, "PUT", of("k", "owner", "holder", "ttl_ms", "600000"), "")
		before := heap()
		conns := make([]net.Conn, waiters)
		for i := range conns {
			conns[i] = w.dial()
			if _, err := fmt.Fprintf(conns[i], "PUT /v1/locks/k?owner=o%d&wait_ms=60000&ttl_ms=600000 "+
				"HTTP/1.1\r\nHost: x\r\n\r\n", i); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n, _, _, _, _ := w.server.InUse(); n != waiters {
			t.Fatalf("%d wait", n)
		}
		each := (heap() - before) / uint64(waiters)
		t.Logf("%d bytes for a waiter", each)
		if each > 64<<10 {
			t.Errorf("%d bytes for a waiter", each)
		}
		w.want(429, "PUT", of("k", "owner", "too-many", "wait_ms", "60000"), "")
		w.want(200, "PUT", of("other", "owner", "o", "ttl_ms", "600000"), "")
		start := time.Now()
		for i, conn := range conns {
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || r.StatusCode != 423 {
				t.Fatalf("waiter %d: %v %v", i, r, err)
			}
			conn.Close()
		}
		if took := time.Since(start); took > 61*time.Second {
			t.Errorf("took %v", took)
		}
		time.Sleep(5 * time.Second)
		if n, leases, _, claims, callers := w.server.InUse(); n != 0 || leases != 2 || claims != 2 || callers != 1 {
			t.Errorf("left: %d waiters, %d leases, %d claims, %d callers", n, leases, claims, callers)
		}
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// Each limit refuses further requests. A request that has ended makes room for another.
func TestLimits(t *testing.T) {
	o := lockhttp.Options{MaxWaitersPerClient: 1, MaxLeasesPerClient: 2, MaxWatchersPerClient: 1}
	inBubble(t, o, func(w *world) {
		w.want(200, "PUT", of("a", "owner", "o", "ttl_ms", "5000"), "")
		ctx, cancel := context.WithCancel(context.Background())
		go w.try(ctx, "PUT", of("a", "owner", "p", "wait_ms", "60000"), "")
		synctest.Wait()
		w.want(429, "PUT", of("a", "owner", "q", "wait_ms", "60000"), "")
		w.want(429, "PUT", of("b", "owner", "q"), "")
		w.want(200, "PUT", of("a", "owner", "o", "ttl_ms", "5000"), "")
		cancel()
		time.Sleep(3 * time.Second) // the waiter lingers
		w.want(200, "PUT", of("b", "owner", "q"), "")
		watch, stop := context.WithCancel(context.Background())
		go w.try(watch, "GET", path("b", "/watch", "owner", "q"), "")
		synctest.Wait()
		w.want(429, "GET", path("b", "/watch", "owner", "q"), "")
		stop()
		synctest.Wait()
	})
}

// A client has few lists at once, because each may read everything that the store keeps.
func TestListsAreLimited(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		goOn := make(chan struct{})
		w.open = func() backend.Backend { return slowLister{sharedMemory{w.store.Client()}, goOn} }
		w.stop()
		w.start()
		for range 8 {
			go w.try(context.Background(), "GET", "/v1/locks", "")
		}
		synctest.Wait()
		w.want(429, "GET", "/v1/locks", "")
		w.want(200, "GET", of("k"), "")
		close(goOn)
		synctest.Wait()
		w.want(200, "GET", "/v1/locks", "")
	})
}

// A slowLister lists nothing before goOn is closed.
type slowLister struct {
	sharedMemory
	goOn chan struct{}
}

func (s slowLister) List(ctx context.Context, prefix string) ([]string, error) {
	<-s.goOn
	return s.sharedMemory.List(ctx, prefix)
}

// A LimitListener closes connections above its limit for one address. A closed connection makes room for another.
func TestLimitListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := lockhttp.LimitListener(inner, 10, 2)
	defer l.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	dial()
	first, second := <-accepted, <-accepted
	if _, err := dial().Read(make([]byte, 1)); !errors.Is(err, io.EOF) && err == nil {
		t.Error("the third connection is open")
	}
	first.Close()
	first.Close() // counts once
	dial()
	third := <-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("one more connection is open")
	}
	second.Close()
	third.Close()
}
