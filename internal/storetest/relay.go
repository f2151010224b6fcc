package storetest

import (
	"net"
	"sync"
	"testing"
)

// A Relay is the common part of proxies that stand between clients and a server to cause faults. It accepts
// connections, dials the server for each, and can break them all at once.
type Relay struct {
	Addr string // the address that the Relay listens on

	listener net.Listener
	target   string
	serve    func(r *Relay, client, server net.Conn)
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	away   bool
	closed bool
}

// NewRelay returns a Relay to target that listens on addr. For each connection it dials the server and calls serve on a
// new goroutine. The Relay ends with the test, which waits for all its goroutines.
func NewRelay(t testing.TB, addr, target string, serve func(r *Relay, client, server net.Conn)) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Addr: l.Addr().String(), listener: l, target: target, serve: serve, conns: make(map[net.Conn]struct{})}
	r.Go(r.accept)
	t.Cleanup(func() {
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		_ = l.Close()
		r.Cut()
		r.wg.Wait()
	})
	return r
}

// Go runs f on a goroutine that the end of the test waits for.
func (r *Relay) Go(f func()) { r.wg.Go(f) }

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		if r.away || r.closed {
			_ = client.Close()
			_ = server.Close()
			r.mu.Unlock()
			continue
		}
		r.conns[client], r.conns[server] = struct{}{}, struct{}{}
		r.mu.Unlock()
		r.Go(func() { r.serve(r, client, server) })
	}
}

// Refuse decides whether new connections are closed at once.
func (r *Relay) Refuse(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// Cut closes every connection.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
	clear(r.conns)
}
