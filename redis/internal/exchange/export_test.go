package exchange

import (
	"context"
	"net"
	"time"
)

const IdleTime = idleTime

// SoloFailed reports whether the latest lone request got no reply.
func (l *Batcher) SoloFailed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.soloRetryAt.IsZero()
}

// Latest returns the solo's generation, and the connection of the latest lone request. The generation grows by one when
// a request begins, and by one when it ends.
func (s *solo) Latest() (n uint64, conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation, s.conn
}

// Interrupt acts as if the context of the request of this generation had just ended.
func (s *solo) Interrupt(generation uint64) { s.interrupt(generation) }

// Do sends a request.
func (s *solo) Do(end time.Time, q Request) error {
	_, err := s.do(context.Background(), end, q)
	return err
}
