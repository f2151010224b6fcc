package exchange

import (
	"context"
	"net"
	"time"
)

// What follows is for tests of the stores.

// Gather keeps lanes from opening, so that requests gather, until release is called. It is false while a lane is open or will be.
func (l *Lanes) Gather() (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open > 0 || l.armed {
		return nil, false
	}
	l.open, l.armed = UsualLanes, true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open -= UsualLanes
		l.armed = false
		l.openLocked()
	}, true
}

// Waiting is how many requests wait for a lane.
func (l *Lanes) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// Most is how many lanes there may be.
func (l *Lanes) Most() int { return l.most }

// Shuns reports whether requests that come alone have failed lately.
func (l *Lanes) Shuns() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.shun.IsZero()
}

// Latest is the number of the latest request that went alone, and its connection.
func (s *solo) Latest() (n uint64, conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, s.conn
}

// Interrupt is the end of the context of request n.
func (s *solo) Interrupt(n uint64) { s.interrupt(n, time.Now()) }

// Do makes a request.
func (s *solo) Do(end time.Time, q Request) error {
	_, err := s.do(context.Background(), end, q)
	return err
}
