package exchange

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/internal/eager"
)

// A solo is a client with one connection. It sends lone requests on their caller's goroutine, because a switch to
// another goroutine would take a large part of a lone request's time. go-redis does not end a request when its context
// is cancelled. Here the connection's deadline ends it, because the connection has only one request at a time. Package
// eager polls for a reply that arrives soon.
type solo struct {
	Client *redis.Client

	mu   sync.Mutex
	n    uint64    // number of the latest request
	conn net.Conn  // the latest connection
	end  time.Time // of the request in progress; zero if there is none
	cut  time.Time // when the request must end because its context has ended; zero if that is still live
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
		return s.wrap(eager.New(c)), nil
	}
	s.Client = redis.NewClient(&o)
	return s
}

// do sends a request. No other request may be in progress.
func (s *solo) do(ctx context.Context, end time.Time, q Request) (any, error) {
	sctx := soloContext{ctx, end}
	n := s.begin(end)
	defer s.finish()
	if ctx.Done() != nil {
		grace := q.Grace
		stop := context.AfterFunc(ctx, func() { s.interrupt(n, time.Now().Add(grace)) })
		defer stop()
	}
	c := newCall(ctx, end, q)
	sendCalls(sctx, s.Client, []*call{c})
	v, err := c.recycle(c.result)
	if err == nil || IsReply(err) || errors.Is(err, ErrReplicas) {
		return v, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, err
}

func (s *solo) begin(end time.Time) (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.end = end
	s.cut = time.Time{}
	return s.n
}

func (s *solo) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = time.Time{}
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

// interrupt makes request n, if it is still in progress, end at the given time.
func (s *solo) interrupt(n uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == n {
		s.cut = at
		if s.conn != nil {
			_ = s.conn.SetDeadline(at)
		}
	}
}

// A soloContext also ends at end, which bounds the wait for the connection.
type soloContext struct {
	context.Context
	end time.Time
}

func (c soloContext) Deadline() (time.Time, bool) { return c.end, true }

func (c soloContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	return DeadlineContext{End: c.end}.Err()
}

// A soloConn is a solo's connection. It sets no deadline later than solo.cut.
type soloConn struct {
	net.Conn
	solo *solo
}

func (s *solo) wrap(c net.Conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = c
	if socket, ok := c.(syscall.Conn); ok {
		return struct {
			soloConn
			syscall.Conn // go-redis checks the socket before each request
		}{soloConn{c, s}, socket}
	}
	return soloConn{c, s}
}

func (c soloConn) SetDeadline(t time.Time) error      { return c.set(c.Conn.SetDeadline, t) }
func (c soloConn) SetReadDeadline(t time.Time) error  { return c.set(c.Conn.SetReadDeadline, t) }
func (c soloConn) SetWriteDeadline(t time.Time) error { return c.set(c.Conn.SetWriteDeadline, t) }

func (c soloConn) set(set func(time.Time) error, t time.Time) error {
	c.solo.mu.Lock()
	defer c.solo.mu.Unlock()
	if cut := c.solo.cut; !cut.IsZero() && (t.IsZero() || cut.Before(t)) {
		t = cut
	}
	return set(t)
}
