package link

import (
	"net"
	"time"

	"github.com/anylock/lock/conformance"
)

var _ conformance.IgnoringLink = (*Link)(nil)

// Ignore implements conformance.IgnoringLink. On Linux the kernel drops the SYN of each new dial, because the queue of
// connections that wait for Accept is full. On other systems the kernel may still accept connections, but they get no
// replies.
func (l *Link) Ignore() {
	l.dials.Lock()
	defer l.dials.Unlock()
	l.listen()
	l.change(func() { l.ignore, l.refuse = true, false })
	listening := 0
	for _, p := range l.ports {
		if p.listener != nil {
			listening++
			_ = p.listener.SetDeadline(time.Unix(1, 0)) // makes Accept return
		}
	}
	l.awaitPause(listening) // a connection accepted after fill would make room for a dial
	for _, p := range l.ports {
		if p.listener != nil {
			l.fill(p.listener)
		}
	}
	l.Cut()
}

// fill makes the kernel's queue of connections that wait for Accept as short as possible, and fills it.
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

// stopIgnoring restores the listeners. They accept dials again once ignore is unset.
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

// mayAccept blocks while dials are ignored. It returns false once the link is closed.
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
