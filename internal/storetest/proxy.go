package storetest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a Relay that knows nothing of what it passes on. Requests always reach the server, unless cut.
type Proxy struct {
	*Relay

	// Set changes them.
	Replies func(p []byte) (forward bool) // asked for each piece of a reply; nil forwards
	Delay   time.Duration                 // of replies
	Silent  bool                          // connections take what is sent, and nothing comes back or is passed on

	mu   sync.Mutex
	took bool // while it was silent
}

// NewProxy returns a Proxy to target, on a free port.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return NewProxyAt(t, "127.0.0.1:0", target)
}

// NewProxyAt returns a Proxy to target that listens on addr.
func NewProxyAt(t testing.TB, addr, target string) *Proxy {
	t.Helper()
	p := new(Proxy)
	p.Relay = NewRelay(t, addr, target, func(r *Relay, client, server net.Conn) {
		r.Go(func() { p.copy(r, server, client, false) })
		p.copy(r, client, server, true)
	})
	return p
}

func (p *Proxy) copy(r *Relay, to, from net.Conn, reply bool) {
	pieces := make(chan piece, 1024)
	r.Go(func() {
		defer to.Close()
		defer from.Close()
		for piece := range pieces {
			time.Sleep(time.Until(piece.due)) // sleeps: the delay
			if p.forwards(piece.data, reply) {
				_, _ = to.Write(piece.data) // when this fails, reading fails too
			}
		}
	})
	defer close(pieces)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if delay, passes := p.take(reply); passes {
				pieces <- piece{bytes.Clone(buf[:n]), time.Now().Add(delay)}
			}
		}
		if err != nil {
			return
		}
	}
}

// A piece is what was read at once, and when it goes on. Several may be on their way at a time, as on a long line.
type piece struct {
	data []byte
	due  time.Time
}

// take reports whether what has been read goes on, and how much later.
func (p *Proxy) take(reply bool) (delay time.Duration, passes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = p.took || p.Silent
	if reply {
		delay = p.Delay
	}
	return delay, !p.Silent
}

// forwards reports whether data goes on, which the caller of Replies decides for replies.
func (p *Proxy) forwards(data []byte, reply bool) bool {
	p.mu.Lock()
	replies := p.Replies
	p.mu.Unlock()
	return !reply || replies == nil || replies(data)
}

// Set changes the faults.
func (p *Proxy) Set(f func(p *Proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// Taken reports whether something was sent that was not passed on.
func (p *Proxy) Taken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.took
}

// LoseReply makes the next reply get lost together with its connection, after the server has done what was asked.
func (p *Proxy) LoseReply() (lost <-chan struct{}) {
	done := make(chan struct{})
	var once sync.Once
	p.Set(func(p *Proxy) {
		p.Replies = func([]byte) bool {
			first := false
			once.Do(func() { first = true })
			if first {
				p.Set(func(p *Proxy) { p.Replies = nil })
				p.Cut()
				close(done)
			}
			return !first
		}
	})
	return done
}
