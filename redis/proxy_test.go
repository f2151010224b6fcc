package redis

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A proxy stands between a client and its server and makes faults. Requests always reach the server, unless cut.
type proxy struct {
	Addr string

	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	replies func(p []byte) (forward bool) // asked for each piece of a reply; nil forwards
	delay   time.Duration                 // of replies
	silent  bool                          // connections take what is sent, and nothing comes back or is passed on
	took    bool                          // and one has
	closed  bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	return newProxyAt(t, "127.0.0.1:0", target)
}

func newProxyAt(t *testing.T, addr, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Addr: l.Addr().String(), listener: l, target: target, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		if p.closed {
			_ = client.Close()
			_ = server.Close()
			p.mu.Unlock()
			return
		}
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(server, client, false) })
		p.wg.Go(func() { p.copy(client, server, true) })
	}
}

func (p *proxy) copy(to, from net.Conn, reply bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.passes(buf[:n], reply) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) passes(piece []byte, reply bool) bool {
	p.mu.Lock()
	silent, delay, replies := p.silent, p.delay, p.replies
	p.took = p.took || silent
	p.mu.Unlock()
	if silent {
		return false
	}
	if reply {
		time.Sleep(delay)
		return replies == nil || replies(piece)
	}
	return true
}

// set changes the faults.
func (p *proxy) set(f func(p *proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// taken reports whether something was sent that was not passed on.
func (p *proxy) taken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.took
}

// cut breaks every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// loseReply makes the next reply get lost together with its connection, after the server has done what was asked.
func (p *proxy) loseReply() (lost <-chan struct{}) {
	done := make(chan struct{})
	var once sync.Once
	p.set(func(p *proxy) {
		p.replies = func([]byte) bool {
			first := false
			once.Do(func() { first = true })
			if first {
				p.set(func(p *proxy) { p.replies = nil })
				p.cut()
				close(done)
			}
			return !first
		}
	})
	return done
}
