package memcached

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// lanes are connections of our own to one server. A lane is a client of the library that one caller uses at a time, so that
// it has one connection and all requests of a step go over it. That is what makes compare-and-swap safe: its numbers
// start anew when the server restarts, and a number read before could be another owner's after; but no connection
// outlives a restart, and a lane does not connect again in the middle of a step whose first request was answered.
//
// The library knows no contexts. A lane knows its connection, and bounds by itself how long it is waited for.
type lanes struct {
	addr    string
	options Options
	slots   chan struct{} // as many as there may be lanes in use

	mu     sync.Mutex
	idle   []*lane
	closed bool
}

func newLanes(addr string, o Options) *lanes {
	if o.DialContext == nil {
		o.DialContext = oneServer(new(net.Dialer).DialContext)
	}
	return &lanes{addr: addr, options: o, slots: make(chan struct{}, o.MaxConns)}
}

// A lane is one connection.
type lane struct {
	*memcache.Client
	ctx context.Context // of the step under way

	mu    sync.Mutex
	limit time.Time // of the step under way
	conn  net.Conn  // the last that was dialled
}

// do runs f, whose requests go to the server by l, until end, or answerGrace after the end of ctx, and returns its error.
func (p *lanes) do(ctx context.Context, end time.Time, f func(l *lane) error) error {
	if err := p.enter(ctx, end); err != nil {
		return err
	}
	defer func() { <-p.slots }()
	l, err := p.take()
	if err != nil {
		return err
	}
	l.begin(ctx, end)
	stop := context.AfterFunc(ctx, l.hurry)
	err = f(l)
	switch {
	case !stop(), broken(err):
		_ = l.Close()
		if broken(err) && ctx.Err() == nil {
			p.drop() // the other idle ones will be of no use either
		}
	default:
		p.give(l)
	}
	return err
}

// enter waits for a slot.
func (p *lanes) enter(ctx context.Context, end time.Time) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errBusy // the caller tells of its context
	}
}

func (p *lanes) take() (*lane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, backend.ErrClosed
	}
	if n := len(p.idle); n > 0 {
		l := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return l, nil
	}
	l := &lane{Client: memcache.NewFromSelector(server(p.addr))}
	l.MaxIdleConns = 1
	l.DialContext = func(_ context.Context, network, addr string) (net.Conn, error) {
		return l.dial(network, addr, p.options.DialContext)
	}
	return l, nil
}

func (p *lanes) give(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = l.Close()
		return
	}
	p.idle = append(p.idle, l)
}

// drop closes the idle lanes.
func (p *lanes) drop() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, l := range idle {
		_ = l.Close()
	}
}

// close refuses those who come.
func (p *lanes) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
}

// dial connects within the step's limit.
func (l *lane) dial(network, addr string, dial dialer) (net.Conn, error) {
	l.mu.Lock()
	limit := l.limit
	l.mu.Unlock()
	ctx, cancel := context.WithDeadline(l.ctx, limit)
	defer cancel()
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, dialError{backend.NotOurs(l.ctx, err)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
	l.boundLocked(l.limit)
	return boundConn{conn}, nil
}

// begin begins a step.
func (l *lane) begin(ctx context.Context, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx = ctx
	l.boundLocked(end)
}

// hurry leaves a request that is under way only a little time, because its context has ended: the answer nearly always
// comes in that time, and an outcome that is known needs no cleaning up.
func (l *lane) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if soon := time.Now().Add(answerGrace); soon.Before(l.limit) {
		l.boundLocked(soon)
	}
}

// boundLocked sets the limit of the step under way.
func (l *lane) boundLocked(limit time.Time) {
	l.limit = limit
	if l.conn != nil {
		_ = l.conn.SetDeadline(limit)
	}
}

// A boundConn is a connection whose deadlines its lane sets, and not the library.
type boundConn struct{ net.Conn }

func (boundConn) SetDeadline(time.Time) error { return nil }

// server is the library's selector of the one server at an address, whose name is resolved anew for each connection.
type server string

func (s server) PickServer(string) (net.Addr, error)    { return serverAddr(s), nil }
func (s server) Each(f func(addr net.Addr) error) error { return f(serverAddr(s)) }

type serverAddr string

func (serverAddr) Network() string  { return "tcp" }
func (a serverAddr) String() string { return string(a) }
