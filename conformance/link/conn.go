package link

import (
	"net"
	"time"

	"github.com/anylock/lock/conformance"
)

// A conn is one connection through the link.
type conn struct {
	link           *Link
	client, server net.Conn
	broken         chan struct{} // closed to break the connection
	over           chan struct{} // closed when both directions have ended

	// guarded by link.mu
	isBroken bool
	lossy    bool // data was dropped
	stranded bool // no data passes, except to the store if deliver is set
	deliver  bool
	ways     int // directions that have not ended
}

// serve forwards data both ways until the connection ends.
func (l *Link) serve(client, server net.Conn) {
	c := &conn{
		link: l, client: client, server: server, ways: len(l.ways), broken: make(chan struct{}), over: make(chan struct{}),
	}
	l.mu.Lock()
	l.conns[c] = struct{}{}
	if l.refuse || l.ignore || l.closed {
		c.breakLocked()
	}
	l.mu.Unlock()
	for d := range l.ways {
		w := &way{conn: c, direction: conformance.Direction(d), from: client, to: server, arrived: make(chan struct{}, 1)}
		if w.direction == conformance.FromStore {
			w.from, w.to = server, client
		}
		l.running.Go(w.read)
		l.running.Go(w.run)
	}
}

func (c *conn) breakLocked() {
	if !c.isBroken {
		c.isBroken = true
		close(c.broken)
		last := time.Now().Add(lastWrite)
		_ = c.client.SetWriteDeadline(last)
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
		delete(c.link.conns, c)
		_ = c.client.Close()
		_ = c.server.Close()
		close(c.over)
	}
}

// end breaks the connection, because one side has ended it.
func (c *conn) end() {
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
	data []byte
	at   time.Time
}

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
			w.conn.end()
			return
		}
		var due <-chan time.Time // a new timer each time, because delays are rare
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-w.conn.broken:
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
	w.queue = append(w.queue, arrival{data, time.Now()})
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
