package link

import (
	"context"
	"net"
	"time"

	"github.com/anylock/lock/conformance"
)

// A conn is one connection through the link.
type conn struct {
	link   *Link
	client net.Conn
	open   context.Context // ends when the connection is broken
	cancel func()          // ends open
	over   chan struct{}   // closed when both directions have ended

	// guarded by link.mu
	server   net.Conn // nil until the link has reached the server
	isBroken bool
	lossy    bool // data was dropped
	stranded bool // no data passes, except to the store if deliver is set
	deliver  bool
	ways     int // directions that have not ended
}

// newConn adds a connection that the link has accepted.
func (l *Link) newConn(client net.Conn) *conn {
	c := &conn{link: l, client: client, ways: len(l.ways), over: make(chan struct{})}
	c.open, c.cancel = context.WithCancel(l.open)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	if l.refuse || l.ignore || l.closed {
		c.breakLocked()
	}
	return c
}

// serve connects to the server, then forwards data both ways until the connection ends.
func (c *conn) serve(upstream string) {
	l := c.link
	server, err := new(net.Dialer).DialContext(c.open, "tcp", upstream)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		c.endLocked()
		return
	}
	if c.server = server; c.isBroken {
		c.endLocked()
		return
	}
	for d := range l.ways {
		w := &way{conn: c, direction: conformance.Direction(d), from: c.client, to: server, arrived: make(chan struct{}, 1)}
		if w.direction == conformance.FromStore {
			w.from, w.to = server, c.client
		}
		l.running.Go(w.read)
		l.running.Go(w.run)
	}
}

func (c *conn) breakLocked() {
	if c.isBroken {
		return
	}
	c.isBroken = true
	c.cancel()
	last := time.Now().Add(lastWrite)
	_ = c.client.SetWriteDeadline(last)
	if c.server != nil {
		_ = c.server.SetWriteDeadline(last)
	}
}

// lastWrite is how long a receiver has to read data that is in flight when its connection is broken.
const lastWrite = 20 * time.Millisecond

// endWay records that one direction has ended.
func (c *conn) endWay() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.ways--; c.ways == 0 {
		c.endLocked()
	}
}

// endLocked closes the connection, and removes it from the link.
func (c *conn) endLocked() {
	delete(c.link.conns, c)
	c.cancel()
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
	close(c.over)
}

// breakOff breaks the connection, because one side has ended it.
func (c *conn) breakOff() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.breakLocked()
}

// A way is one direction of a conn.
type way struct {
	conn      *conn
	direction conformance.Direction
	from, to  net.Conn
	arrived   chan struct{} // holds a value when data has arrived

	queue []arrival // data that has arrived but was not forwarded yet; guarded by link.mu

	// owned by the goroutine in run
	staged []byte        // the data to write next
	cut    chan struct{} // if the cut follows the staged data: the cut's happened channel
	eof    bool          // the end of the connection follows
}

// An arrival is a piece of data, or the end of the connection if data is nil.
type arrival struct {
	data  []byte
	at    time.Time
	begun bool // its first byte has been forwarded
}

// restLater is how long after the first byte of delayed data the rest follows, so that a receiver reads only a part.
const restLater = 2 * time.Millisecond

// read queues arriving data until the sender, or both sides, have ended the connection.
func (w *way) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := w.from.Read(buf)
		if n > 0 {
			w.receive(append([]byte(nil), buf[:n]...))
		}
		if err != nil {
			w.receive(nil)
			return
		}
	}
}

// run forwards queued data, as the faults allow, until the connection ends.
func (w *way) run() {
	defer w.conn.endWay()
	for {
		changed, wait := w.stage()
		if w.staged != nil {
			_, err := w.to.Write(w.staged)
			w.staged = nil
			if err != nil {
				w.eof = true
			}
		}
		if w.cut != nil {
			w.reached()
			continue
		}
		if w.eof {
			w.conn.breakOff()
			return
		}
		var due <-chan time.Time // a new timer each time, because delays are rare
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-w.conn.open.Done():
			return
		case <-w.arrived:
		case <-changed:
		case <-due:
		}
	}
}

// reached makes the cut, because the data before it has been forwarded.
func (w *way) reached() {
	w.conn.link.reached(w.cut)
	w.cut = nil
}

// receive queues data that has arrived.
func (w *way) receive(data []byte) {
	l := w.conn.link
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.ways[w.direction]
	f.received += int64(len(data))
	if f.drop {
		w.conn.lossy = true
		return
	}
	w.queue = append(w.queue, arrival{data: data, at: time.Now()})
	w.wake()
}

// wake wakes the goroutine that forwards data.
func (w *way) wake() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// stage moves the data that may pass now from the queue to w.staged. changed is closed when a fault changes, because
// more data may pass then. If wait is positive, more data may pass after that time.
func (w *way) stage() (changed <-chan struct{}, wait time.Duration) {
	l := w.conn.link
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.ways[w.direction]
	// No data passes between the last byte before a cut and the cut.
	if l.ways[conformance.ToStore].last || l.ways[conformance.FromStore].last || w.conn.isBroken {
		return l.changed, 0
	}
	if w.conn.stranded && !(w.conn.deliver && w.direction == conformance.ToStore) {
		return l.changed, 0
	}
	if len(w.queue) == 0 || f.hold {
		return l.changed, 0
	}
	next := &w.queue[0]
	if f.delay > 0 {
		if wait := time.Until(next.at.Add(f.delay)); wait > 0 {
			return l.changed, wait
		}
	}
	if next.data == nil {
		w.eof = true
		return l.changed, 0
	}
	n := len(next.data)
	if f.delay > 0 && !next.begun {
		n, next.begun, next.at = 1, true, next.at.Add(restLater)
	}
	if f.cutting {
		n = int(min(int64(n), f.left))
		if f.left -= int64(n); f.left == 0 {
			f.last, w.cut = true, f.happened
		}
		if n == 0 {
			return l.changed, 0
		}
	}
	f.passed += int64(n)
	w.staged = next.data[:n]
	if next.data = next.data[n:]; len(next.data) == 0 { // the rest follows if the cut is cancelled
		w.queue = w.queue[1:]
	}
	if len(w.queue) > 0 {
		w.wake()
	}
	return l.changed, 0
}
