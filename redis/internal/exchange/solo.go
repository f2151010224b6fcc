package exchange

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/eager"
)

// A solo is a client with one connection. It sends lone requests on their caller's goroutine, because a switch to
// another goroutine would take a large part of a lone request's time. go-redis does not end a request when its context
// is cancelled. Here closing the connection ends it, because the connection has only one request at a time. Package
// eager polls for a reply that arrives soon.
type solo struct {
	Client *redis.Client

	mu         sync.Mutex
	generation uint64    // changes when a request begins and when it ends
	conn       net.Conn  // the latest connection
	end        time.Time // of the request in progress; zero if there is none
	cut        bool      // the request in progress must end
}

// NewSolo returns a client with these options, except those of the pool.
func NewSolo(options *redis.Options) *solo {
	s := &solo{}
	o := *options
	o.PoolSize, o.PipelinePoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, -1, 0, 0, 0
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		limited := o
		limited.DialTimeout = s.dialTimeout(o.DialTimeout)
		c, err := redis.NewDialer(&limited)(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c = eager.New(c)
		s.setConn(c)
		return c, nil
	}
	s.Client = redis.NewClient(&o)
	return s
}

// Close closes the client. It is no error that interrupt has closed the connection before.
func (s *solo) Close() error {
	if err := s.Client.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// do sends a request. No other request may be in progress.
func (s *solo) do(ctx context.Context, end time.Time, q Request) (any, error) {
	generation := s.setEnd(end)
	defer s.setEnd(time.Time{})
	if ctx.Done() != nil {
		grace := q.Grace
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { s.interrupt(generation) }) })
		defer stop()
	}
	c := newCall(ctx, end, q)
	sendCalls(DeadlineContext{ctx, end}, s.Client, []*call{c})
	v, err := c.recycle(c.result)
	if err != nil && !IsReply(err) && !errors.Is(err, ErrReplicas) && ctx.Err() != nil {
		err = ctx.Err()
	}
	return v, err
}

// setEnd begins a request that ends at end, or ends the one in progress if end is zero. It returns the new generation.
func (s *solo) setEnd(end time.Time) (generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	s.end, s.cut = end, false
	return s.generation
}

// dialTimeout limits a dial to the end of its request, because go-redis ignores the request's deadline when it dials.
// go-redis also dials by itself, to probe an unreachable server: then the limit is most.
func (s *solo) dialTimeout(most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end.IsZero() {
		return most
	}
	return min(most, max(time.Until(s.end), 1)) // 0 would be no limit
}

// interrupt ends the request of this generation, if it is still in progress.
func (s *solo) interrupt(generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != generation {
		return
	}
	s.cut = true
	if s.conn != nil {
		_ = s.conn.Close()
	}
}

// setConn records a new connection, or closes it if the request in progress must end.
func (s *solo) setConn(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn = c; s.cut {
		_ = c.Close()
	}
}
