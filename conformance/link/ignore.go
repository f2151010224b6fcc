package link

import (
	"net"
	"time"

	"github.com/anylock/lock/conformance"
)

var _ conformance.IgnoringLink = (*Link)(nil)

// Ignore implements conformance.IgnoringLink. On Linux the kernel drops the SYN of each new dial, as the queue of
// connections to accept is full. On other systems the kernel may still accept connections, on which nothing is
// answered.
func (l *Link) Ignore() {
	l.dials.Lock()
	defer l.dials.Unlock()
	l.listen()
	l.change(func() { l.ignore, l.refuse = true, false })
	listening := 0
	for _, p := range l.ports {
		if p.listener != nil {
			listening++
			_ = p.listener.SetDeadline(time.Unix(1, 0)) // ends Accept
		}
	}
	l.awaitPause(listening) // a connection that is accepted after fill would leave room for a dial
	for _, p := range l.ports {
		if p.listener != nil {
			l.fill(p.listener)
		}
	}
	l.Cut()
}

// fill makes the kernel's queue of connections to accept as short as possible, and fills it.
func (l *Link) fill(listener *net.TCPListener) {
	if setBacklog(listener, 0) != nil {
		return
	}
	const (
		most     = 8
		patience = 50 * time.Millisecond
	)
	for range most {
		c, err := net.DialTimeout("tcp", listener.Addr().String(), patience)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.fillers = append(l.fillers, c)
		l.mu.Unlock()
	}
}

// stopIgnoring lets dials be answered again.
func (l *Link) stopIgnoring() {
	l.mu.Lock()
	ignored, fillers := l.ignore, l.fillers
	l.fillers = nil
	l.mu.Unlock()
	if !ignored {
		return
	}
	for _, c := range fillers {
		_ = c.Close()
	}
	const usual = 4096
	for _, p := range l.ports {
		if p.listener != nil {
			_ = setBacklog(p.listener, usual)
			_ = p.listener.SetDeadline(time.Time{})
		}
	}
}

// awaitPause waits until n listeners have stopped accepting, or dials are no longer ignored.
func (l *Link) awaitPause(n int) {
	for {
		l.mu.Lock()
		over, changed := l.paused == n || l.closed || !l.ignore, l.changed
		l.mu.Unlock()
		if over {
			return
		}
		<-changed
	}
}

// mayAccept waits while dials are ignored. It reports false once the link is closed.
func (l *Link) mayAccept() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.ignore {
		return !l.closed
	}
	l.paused++
	l.changedLocked()
	for l.ignore && !l.closed {
		changed := l.changed
		l.mu.Unlock()
		<-changed
		l.mu.Lock()
	}
	l.paused--
	return !l.closed
}
