package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// The sizes of the reference store's messages, in bytes.
const (
	requestLen = 24
	replyLen   = 16
)

// usualDelay is the longest delay of a message on a wire without a fault.
const usualDelay = 200 * time.Microsecond

var (
	errReset   = errors.New("connection reset by peer")
	errRefused = fmt.Errorf("%w: connection refused", backend.ErrUnavailable)
)

// A wire is a link between a client and the server, with one connection at a time.
type wire struct {
	mu     sync.Mutex
	conn   *conn
	refuse bool
	ignore bool
	server *server
	owner  *client // the client behind the wire
	dead   bool    // the wire was closed, or its process was killed
	hold   [2]bool
	drop   [2]bool
	delay  [2]time.Duration
	arms   [2]*arm
	dying  []*conn // stranded connections
	kept   int     // connections that a bug keeps open
	broke  func()  // called when a connection breaks; may be nil
	passed [2]int64
	came   [2]int64
	asking atomic.Int64  // requests in flight
	change chan struct{} // closed when a fault begins or ends
}

// A conn is one connection of a wire.
type conn struct {
	broken chan struct{}
	lossy  bool // a message was dropped

	stranded  bool          // guarded by wire.mu
	delivered chan struct{} // closed when stranded requests reach the server
	healed    chan struct{} // closed when stranded requests can no longer reach the server
}

// An arm is a pending CutAfter of one direction.
type arm struct {
	left     int64
	happened chan struct{}
}

func newWire() *wire { return &wire{change: make(chan struct{})} }

// dial returns the existing connection, or a new one.
func (w *wire) dial() (*conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse || w.dead {
		return nil, errRefused
	}
	if w.conn == nil {
		w.conn = &conn{broken: make(chan struct{}), delivered: make(chan struct{}), healed: make(chan struct{})}
	}
	return w.conn, nil
}

// pass forwards a message of n bytes on c, and reports whether it arrived whole. It returns when the message has
// arrived, or can no longer arrive because c broke.
func (w *wire) pass(c *conn, d conformance.Direction, n int64) bool {
	return w.deliver(c, d, n, func() {})
}

// deliver is pass, with arrived called when the message has arrived whole. A cut right behind the message breaks c only
// afterwards, so that the client gets the message first.
func (w *wire) deliver(c *conn, d conformance.Direction, n int64, arrived func()) bool {
	w.mu.Lock()
	w.came[d] += n
	for w.conn == c && (w.hold[d] || w.drop[d]) {
		if w.drop[d] {
			c.lossy = true
			w.mu.Unlock()
			<-c.broken
			return false
		}
		change := w.change
		w.mu.Unlock()
		select {
		case <-change:
		case <-c.broken:
			return false
		}
		w.mu.Lock()
	}
	delay := w.delay[d] + rand.N(usualDelay)
	w.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-c.broken:
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.stranded {
		return w.passStrandedLocked(c, d, n)
	}
	if w.conn != c {
		return false
	}
	a := w.arms[d]
	if a == nil || n < a.left {
		if a != nil {
			a.left -= n
		}
		w.passed[d] += n
		arrived()
		return true
	}
	whole := n == a.left
	if whole {
		arrived()
	}
	w.passed[d] += a.left
	w.arms[d] = nil
	w.breakLocked()
	close(a.happened)
	return whole
}

func (w *wire) breakLocked() {
	if w.conn != nil {
		close(w.conn.broken)
		w.conn = nil
		if w.broke != nil {
			w.broke()
		}
	}
}

// set changes faults, and wakes the goroutines that wait for a change.
func (w *wire) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.change)
	w.change = make(chan struct{})
}

func (w *wire) Cut() { w.set(w.breakLocked) }

func (w *wire) CutAfter(d conformance.Direction, n int64) <-chan struct{} {
	a := &arm{left: n, happened: make(chan struct{})}
	w.set(func() { w.arms[d] = a })
	return a.happened
}

func (w *wire) Refuse() { w.set(func() { w.refuse = true; w.breakLocked() }) }

func (w *wire) Hold(d conformance.Direction) { w.set(func() { w.hold[d] = true }) }

func (w *wire) Drop(d conformance.Direction) { w.set(func() { w.drop[d] = true }) }

func (w *wire) Delay(d conformance.Direction, by time.Duration) { w.set(func() { w.delay[d] = by }) }

func (w *wire) Heal() {
	w.set(func() {
		w.refuse, w.ignore = false, false
		w.hold, w.drop, w.delay, w.arms = [2]bool{}, [2]bool{}, [2]time.Duration{}, [2]*arm{}
		if w.conn != nil && w.conn.lossy {
			w.breakLocked()
		}
		w.breakStrandedLocked()
	})
}

// kill breaks the wire for good.
func (w *wire) kill() {
	w.set(func() {
		w.dead = true
		w.breakLocked()
		w.breakStrandedLocked()
	})
}

// isDead reports whether the wire was closed or its process was killed.
func (w *wire) isDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

func (w *wire) Passed(d conformance.Direction) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.passed[d]
}

func (w *wire) Arrived(d conformance.Direction) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came[d]
}

func (w *wire) Close() { w.kill() }

// linked opens a client behind a wire.
func (s *server) linked(context.Context) (backend.Backend, conformance.Link, error) {
	c := newClient(s)
	c.wire = newWire()
	c.wire.server, c.wire.owner = s, c
	if s.is("lease ends with its connection, and nobody is notified") {
		c.wire.broke = func() { go s.dropOf(c) }
	}
	if s.is("reader ends with its connection") {
		c.wire.broke = func() { go s.dropReadersOf(c) }
	}
	s.watchContact(c)
	return c, c.wire, nil
}

// dropOf ends the exclusive leases of the client.
func (s *server) dropOf(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		if e.client == c {
			s.endLocked(key, e)
		}
	}
}

// exchange sends a request through the wire, has the server serve it, and waits for the reply.
func (c *client) exchange(ctx context.Context, serve func()) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	c.begins()
	c.beginsAnew()
	c.wire.asking.Add(1)
	defer c.wire.asking.Add(-1)
	answered := make(chan struct{})
	go func() {
		if !c.wire.pass(conn, conformance.ToStore, requestLen) {
			return
		}
		c.server.gate.RLock()
		serve()
		c.server.gate.RUnlock()
		c.wire.deliver(conn, conformance.FromStore, replyLen, func() { close(answered) })
	}()
	patience := time.NewTimer(wirePatience)
	defer patience.Stop()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		switch {
		case c.is("cancellation under way is reported as a timeout"):
			return context.DeadlineExceeded
		case c.is("cancellation under way is reported as its cause alone"):
			return context.Cause(ctx)
		}
		return kit.ContextError(ctx, nil)
	case <-patience.C:
		return c.ownLimit()
	case <-conn.broken:
	}
	select {
	case <-answered: // the reply was the last message to arrive
		return nil
	default:
		return errReset
	}
}

// wirePatience is how long a client behind a wire waits for a reply.
const wirePatience = 2 * time.Second

// turnThrough forwards the notification of a waiter's turn through the wire. The notification is lost if the connection
// breaks first. The caller closes over when the wait ends.
func (c *client) turnThrough(p *place, conn *conn, turn <-chan granted, over <-chan struct{}) <-chan granted {
	through := make(chan granted, 1)
	go func() {
		select {
		case g := <-turn:
			if !c.newsIsLate(p) {
				c.wire.deliver(conn, conformance.FromStore, replyLen, func() { through <- g })
			}
		case <-conn.broken:
		case <-over:
		}
	}()
	return through
}
