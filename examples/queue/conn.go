package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// silence is for how long the server may owe an answer, or keep us from sending. The connection is given up then.
const silence = 3 * time.Second

// A clientConn is a connection to the server, which keeps the order of requests.
type clientConn struct {
	net.Conn
	out    chan request
	broken chan struct{} // closed when nothing comes from it any more

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan answer // for whoever still wants it
}

// connection returns the connection. It makes a new one if the last has broken.
func (s *Store) connection(ctx context.Context) (*clientConn, error) {
	select {
	case s.dialing <- struct{}{}:
		defer func() { <-s.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.conn != nil {
		select {
		case <-s.conn.broken:
		default:
			return s.conn, nil
		}
	}
	dialer := net.Dialer{Timeout: silence}
	conn, err := dialer.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
	}
	s.conn = &clientConn{Conn: conn, out: make(chan request), broken: make(chan struct{}), waiting: make(map[uint64]chan answer)}
	go s.conn.write()
	go s.read(s.conn)
	return s.conn, nil
}

// call makes one request. If its context ends, the answer is not waited for, and the connection stays.
func (s *Store) call(ctx context.Context, r request) (answer, error) {
	c, err := s.connection(ctx)
	if err != nil {
		return answer{}, err
	}
	got := make(chan answer, 1)
	c.mu.Lock()
	c.last++
	r.ID = c.last
	c.waiting[r.ID] = got
	c.listenLocked(len(c.waiting) == 1)
	c.mu.Unlock()
	select {
	case c.out <- r:
		select {
		case a := <-got:
			return a, nil
		case <-c.broken:
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	case <-c.broken:
	case <-ctx.Done():
		c.answered(answer{ID: r.ID}) // it is not sent
		return answer{}, ctx.Err()
	}
	return answer{}, fmt.Errorf("%w: the connection broke", backend.ErrUnavailable)
}

// listenLocked limits how long the server may be silent while somebody waits for an answer, from now on.
func (c *clientConn) listenLocked(from bool) {
	switch {
	case len(c.waiting) == 0:
		c.SetReadDeadline(time.Time{})
	case from:
		c.SetReadDeadline(time.Now().Add(silence))
	}
}

func (c *clientConn) answered(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.waiting[a.ID]; got != nil {
		got <- a
	}
	delete(c.waiting, a.ID)
	c.listenLocked(true)
}

func (c *clientConn) write() {
	for lines := json.NewEncoder(c); ; {
		select {
		case r := <-c.out:
			c.SetWriteDeadline(time.Now().Add(silence))
			if lines.Encode(r) != nil {
				c.Close()
			}
		case <-c.broken:
			return
		}
	}
}

// read hands out what the server says. When the connection has broken, all who wait ask again.
func (s *Store) read(c *clientConn) {
	for lines := json.NewDecoder(c); ; {
		var a answer
		if lines.Decode(&a) != nil {
			break
		}
		if a.ID > 0 {
			c.answered(a)
		} else {
			s.mu.Lock()
			wake(s.turns[string(a.Owner)])
			s.mu.Unlock()
		}
	}
	c.Close()
	close(c.broken)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, turn := range s.turns {
		wake(turn)
	}
}

// wake has a waiter ask for its key, unless it has left.
func wake(turn chan struct{}) {
	select {
	case turn <- struct{}{}:
	default: // it will ask
	}
}
