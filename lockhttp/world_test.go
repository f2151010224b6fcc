package lockhttp_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
	"github.com/anylock/lock/memory"
)

// A network is a listener in memory, so that servers and clients work in fake time.
type network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newNetwork() *network { return &network{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

func (n *network) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (n *network) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case n.conns <- theirs:
		return ours, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sharedMemory is a client of a store in memory that claims to be shared by several hosts, so that leases can be
// resumed.
type sharedMemory struct{ *memory.Backend }

func (b sharedMemory) Guarantees() backend.Guarantees {
	g := b.Backend.Guarantees()
	g.Reach = backend.ReachNetwork
	return g
}

// A world is a server on a store in memory, with a client of that server.
type world struct {
	t       *testing.T
	store   *memory.Store
	open    func() backend.Backend // a client of the store
	options lockhttp.Options
	locks   *lock.Locker
	server  *lockhttp.Server
	http    *http.Server
	network *network
	client  *http.Client
	token   string // for Authorization
}

// inBubble runs f in a synctest bubble, with a server.
func inBubble(t *testing.T, o lockhttp.Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memory.NewStore(), options: o}
		w.open = func() backend.Backend { return sharedMemory{w.store.Client()} }
		w.start()
		defer w.stop()
		f(w)
	})
}

// start starts a server on the store.
func (w *world) start() {
	w.t.Helper()
	locks, err := lock.New(w.open())
	if err != nil {
		w.t.Fatal(err)
	}
	server, err := lockhttp.New(locks, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.locks, w.server, w.network = locks, server, newNetwork()
	w.http = lockhttp.NewHTTPServer(server, nil)
	go w.http.Serve(w.network)
	n := w.network
	w.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx) },
	}}
}

// useHTTP2 replaces the client by one that uses only HTTP/2.
func (w *world) useHTTP2() {
	w.client.CloseIdleConnections()
	n, protocols := w.network, new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	w.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx) },
		Protocols:   protocols,
	}}
}

// stop stops the server. Its leases stay at the store.
func (w *world) stop() {
	w.client.CloseIdleConnections()
	if err := w.server.Shutdown(context.Background()); err != nil {
		w.t.Error(err)
	}
	w.http.Close()
	w.locks.Close()
}

// An answer is a reply of the server.
type answer struct {
	code   int
	header http.Header
	text   string
	sent   time.Time // just before the request was sent
	body   struct {
		Key      string
		Path     string
		Owner    string
		Lease    string
		Label    string
		Shared   any // a boolean of a lease, a number of a holder
		Token    string
		Deadline int64 `json:"deadline_ms"`
		Held     bool
		TTL      *int64 `json:"ttl_ms"`
		Code     string
		Message  string
		Holder   *struct {
			Owner, Label, Token string
			Shared              int
			TTL                 *int64 `json:"ttl_ms"`
		}
		Locks []struct{ Key, Path, Owner, Label string }
	}
}

// call sends a request. The reply must match the OpenAPI document.
func (w *world) call(method, target, body string) answer {
	w.t.Helper()
	a, err := w.try(w.t.Context(), method, target, body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, target, err)
	}
	return a
}

func (w *world) try(ctx context.Context, method, target, body string) (answer, error) {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://anylock"+target, content)
	if err != nil {
		return answer{}, err
	}
	if w.token != "" {
		q.Header.Set("Authorization", "Bearer "+w.token)
	}
	a := answer{sent: time.Now()}
	r, err := w.client.Do(q)
	if err != nil {
		return a, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return a, err
	}
	a.code, a.header, a.text = r.StatusCode, r.Header, string(text)
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		_ = json.Unmarshal(text, &a.body) // checkDocumented checks the body
	}
	checkDocumented(w.t, method, target, a)
	return a, nil
}

// want is like call, but also checks the status.
func (w *world) want(code int, method, target, body string) answer {
	w.t.Helper()
	a := w.call(method, target, body)
	if a.code != code {
		w.t.Fatalf("%s %s: %d %s, want %d", method, target, a.code, a.text, code)
	}
	return a
}

// of returns the path of a key. query are names and values of parameters, in pairs.
func of(key string, query ...string) string { return path(key, "", query...) }

func path(key, action string, query ...string) string {
	v := make(url.Values)
	for i := 0; i+1 < len(query); i += 2 {
		v.Set(query[i], query[i+1])
	}
	return "/v1/locks/" + url.PathEscape(key) + action + "?" + v.Encode()
}
