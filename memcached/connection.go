package memcached

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// answerGrace is how long a request may still wait for its reply after its context is done.
const answerGrace = 100 * time.Millisecond

// A pool holds the connections to one server. An operation uses one connection, exclusively, for all its requests.
// Compare-and-swap depends on that: after a restart, the server numbers items from the start again, so an old number
// may match a new owner's item. But no connection survives a restart.
type pool struct {
	addr  string
	dial  dialer
	slots chan struct{} // one element for each connection in use

	mu     sync.Mutex
	idle   []*connection
	closed bool
}

func newPool(addr string, o Options) *pool {
	if o.DialContext == nil {
		o.DialContext = oneServer(new(net.Dialer).DialContext)
	}
	return &pool{addr: addr, dial: o.DialContext, slots: make(chan struct{}, o.MaxConns)}
}

// A connection is a client of the library with at most one network connection. One operation uses it at a time.
type connection struct {
	*memcache.Client
	ctx     context.Context // of the operation
	pending bool            // a request that may change something has no reply yet

	mu   sync.Mutex
	conn net.Conn // the latest one dialled
}

// do runs f on a connection. After ctx is done, f has answerGrace to return.
func (p *pool) do(ctx context.Context, f func(c *connection) error) (pending bool, err error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return false, errBusy
	}
	defer func() { <-p.slots }()
	c, err := p.checkout()
	if err != nil {
		return false, err
	}
	c.ctx, c.pending = ctx, false
	stop := context.AfterFunc(ctx, c.limitReply)
	err = f(c)
	pending = c.pending // before another operation may use c
	if !stop() || broken(err) {
		_ = c.Close()
	} else {
		p.checkin(c)
	}
	return pending, err
}

func (p *pool) checkout() (*connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, backend.ErrClosed
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	c := &connection{Client: memcache.NewFromSelector(server(p.addr))}
	c.MaxIdleConns = 1
	c.DialContext = func(_ context.Context, network, addr string) (net.Conn, error) {
		return c.connect(p.dial(c.ctx, network, addr))
	}
	return c, nil
}

func (p *pool) checkin(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, c)
}

// closeIdle closes the idle connections.
func (p *pool) closeIdle() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		_ = c.Close()
	}
}

// close closes the idle connections and rejects further operations.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.closeIdle()
}

// connect returns the dialled connection, wrapped for the library.
func (c *connection) connect(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	if c.ctx.Err() != nil { // limitReply may have run before conn was set
		c.limitReply()
	}
	return libraryConn{conn, c}, nil
}

// get reads an item, for a later CompareAndSwap. It fails if the server does not number items, because such a server
// would swap without comparing.
func (c *connection) get(name string) (*memcache.Item, error) {
	item, err := c.Get(name)
	if err == nil && item.CasID == 0 {
		return nil, errNoCAS
	}
	return item, err
}

// limitReply limits the request in progress to answerGrace, because its context is done. The reply nearly always
// arrives in that time, and a known outcome needs no cleanup.
func (c *connection) limitReply() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.SetDeadline(time.Now().Add(answerGrace))
	}
}

// A libraryConn ignores the deadlines that the library sets, and records whether a change is pending.
type libraryConn struct {
	net.Conn
	c *connection
}

func (libraryConn) SetDeadline(time.Time) error { return nil }

func (l libraryConn) Write(p []byte) (int, error) {
	l.c.pending = !bytes.HasPrefix(p, []byte("gets "))
	return l.Conn.Write(p)
}

func (l libraryConn) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if bytes.HasSuffix(p[:n], []byte("\n")) { // the reply to a change is one line, which may arrive in parts
		l.c.pending = false
	}
	return n, err
}

// server is the address of a server, and the library's selector of that server. The name is resolved again for each
// connection.
type server string

func (s server) PickServer(string) (net.Addr, error)    { return s, nil }
func (s server) Each(f func(addr net.Addr) error) error { return f(s) }
func (server) Network() string                          { return "tcp" }
func (s server) String() string                         { return string(s) }
