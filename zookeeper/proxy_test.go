package zookeeper

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/internal/storetest"
)

// A proxy forwards whole requests, and injects faults.
type proxy struct {
	*storetest.Relay

	mu     sync.Mutex
	silent bool          // connections stay open, and nothing is forwarded
	delay  time.Duration // of replies
	// request reports whether a request is forwarded to the server, and whether all connections then break. nil forwards
	// every request.
	request func(op int32) (forward, cut bool)
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := new(proxy)
	p.Relay = storetest.NewRelay(t, "127.0.0.1:0", target, func(r *storetest.Relay, client, server net.Conn) {
		mute := new(atomic.Bool) // replies are lost
		r.Go(func() { p.requests(server, client, mute) })
		p.replies(r, client, server, mute)
	})
	return p
}

// set changes the faults.
func (p *proxy) set(f func(p *proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *proxy) replies(r *storetest.Relay, to, from net.Conn, mute *atomic.Bool) {
	type piece struct {
		data []byte
		at   time.Time
	}
	line := make(chan piece, 1024) // delayed replies
	r.Go(func() {
		defer to.Close()
		for q := range line {
			time.Sleep(time.Until(q.at)) // sleeps: the delay of the reply
			_, _ = to.Write(q.data)
		}
	})
	defer close(line)
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		silent, delay := p.silent, p.delay
		p.mu.Unlock()
		if n > 0 && !silent && !mute.Load() {
			line <- piece{append([]byte(nil), buf[:n]...), time.Now().Add(delay)}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent
}

// requests forwards whole frames.
func (p *proxy) requests(to, from net.Conn, mute *atomic.Bool) {
	defer to.Close()
	defer from.Close()
	for first := true; ; first = false {
		head := make([]byte, 4)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		size := be.Uint32(head)
		isWord := size > 1<<20 // a four-letter command, which has no length
		if isWord {
			size = 0
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		forward, cut := !p.isSilent(), false
		p.mu.Lock()
		ask := p.request
		p.mu.Unlock()
		if forward && !first && !isWord && ask != nil {
			forward, cut = ask(int32(be.Uint32(body[4:])))
		}
		mute.Store(mute.Load() || cut)
		if forward {
			if _, err := to.Write(append(head, body...)); err != nil {
				return
			}
		}
		if cut {
			time.Sleep(20 * time.Millisecond) // sleeps: the server must read the request; its reply is lost
			p.Cut()
		}
	}
}

// once calls f for the next request of a kind, and forwards all others.
func (p *proxy) once(op int32, f func() (forward, cut bool)) (met <-chan struct{}) {
	done := make(chan struct{})
	var once sync.Once
	p.set(func(p *proxy) {
		p.request = func(o int32) (forward, cut bool) {
			forward = true
			if o == op {
				once.Do(func() {
					forward, cut = f()
					close(done)
				})
			}
			return forward, cut
		}
	})
	return done
}

// hold delays the next request of a kind, and all later ones on its connection, until pass is called. It forwards all
// others.
func (p *proxy) hold(op int32) (met <-chan struct{}, pass func()) {
	done, gate := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	p.set(func(p *proxy) {
		p.request = func(o int32) (forward, cut bool) {
			if o == op && first.CompareAndSwap(false, true) {
				close(done)
				<-gate
			}
			return true, false
		}
	})
	return done, sync.OnceFunc(func() { close(gate) })
}

// swallow drops all requests of a kind until pass is called, and forwards all others.
func (p *proxy) swallow(op int32) (pass func()) {
	p.set(func(p *proxy) { p.request = func(o int32) (forward, cut bool) { return o != op, false } })
	return func() { p.set(func(p *proxy) { p.request = nil }) }
}
