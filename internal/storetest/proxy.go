package storetest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a Relay that does not interpret the data that it forwards. Requests always reach the server, unless the
// connection is cut or Silent is set.
type Proxy struct {
	*Relay

	// Change these fields only in Set.
	Replies func(p []byte) (forward bool) // called for each piece of a reply; nil forwards all
	Delay   time.Duration                 // of replies
	Silent  bool                          // connections accept data, but forward nothing in either direction

	mu   sync.Mutex
	took bool // data arrived while Silent was set
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
				_, _ = to.Write(piece.data) // if this fails, reading fails too
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

// A piece is data from one read, and when to forward it. Several pieces may be delayed at the same time, as on a long
// line.
type piece struct {
	data []byte
	due  time.Time
}

// take reports whether to forward the data just read, and after which delay.
func (p *Proxy) take(reply bool) (delay time.Duration, passes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = p.took || p.Silent
	if reply {
		delay = p.Delay
	}
	return delay, !p.Silent
}

// forwards reports whether to forward data. Requests are always forwarded; Replies decides about replies.
func (p *Proxy) forwards(data []byte, reply bool) bool {
	p.mu.Lock()
	replies := p.Replies
	p.mu.Unlock()
	return !reply || replies == nil || replies(data)
}

// Set calls f to change the faults.
func (p *Proxy) Set(f func(p *Proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// Taken reports whether data arrived that was not forwarded because Silent was set.
func (p *Proxy) Taken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.took
}

// LoseReply loses the next reply together with its connection, after the server has processed the request.
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
