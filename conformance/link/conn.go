package link

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/anylock/lock/conformance"
)

// A conn is one connection through the link.
type conn struct {
	link   *Link
	broken chan struct{} // closed to end it
	over   chan struct{} // closed when it has ended at both sides

	// guarded by link.mu
	isBroken bool
	lossy    bool // something was swallowed
	ways     int  // directions that have not ended
}

func (c *conn) breakLocked() {
	if !c.isBroken {
		c.isBroken = true
		close(c.broken)
	}
}

// endWay notes that one direction has ended.
func (c *conn) endWay() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.ways--; c.ways == 0 {
		delete(c.link.conns, c)
		close(c.over)
	}
}

// end breaks it, as one side has ended it.
func (c *conn) end() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.breakLocked()
}

// A way is one direction of a conn. It belongs to the goroutine that runs it.
type way struct {
	conn      *conn
	direction conformance.Direction
	queue     []arrival           // what has come and not yet gone
	staged    *stream.StreamChunk // what goes next
	cut       chan struct{}       // set when the cut comes after what is staged: its happened
	eof       bool                // the end goes next
}

// An arrival is what has come; no data stands for the end of the connection.
type arrival struct {
	data []byte
	at   time.Time
}

// run passes on what comes, as the faults allow, until the connection ends. Then it takes what still comes from the proxy's
// reader, which would hang for ever otherwise, until that has ended too: both sockets are closed when both ways have ended.
func (w *way) run(stub *toxics.ToxicStub) {
	defer w.conn.endWay()
	in := stub.Input
	for {
		changed, wait := w.stage()
		switch {
		case w.eof:
			w.conn.end()
		case w.cut != nil && w.staged == nil:
			w.reached()
		}
		var out chan<- *stream.StreamChunk
		if w.staged != nil {
			out = stub.Output
		}
		var due <-chan time.Time // of its own: delays are rare
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case out <- w.staged:
			w.staged = nil
			if w.cut != nil {
				w.reached()
			}
		case chunk := <-in:
			if chunk == nil {
				in = nil
			}
			w.come(chunk)
		case <-w.conn.broken:
			w.last(stub)
			stub.Close()
			for in != nil && <-in != nil {
			}
			return
		case <-changed:
		case <-due:
		}
	}
}

// last passes on what has been counted as passed when the connection is broken, unless its receiver has gone or reads nothing.
func (w *way) last(stub *toxics.ToxicStub) {
	const enough = 20 * time.Millisecond
	if w.staged != nil {
		select {
		case stub.Output <- w.staged:
		case <-time.After(enough):
		}
	}
	if w.cut != nil {
		w.reached()
	}
}

// reached makes the cut, whose place has been reached.
func (w *way) reached() {
	w.conn.link.reached(w.cut)
	w.cut = nil
}

// come takes in what has come.
func (w *way) come(chunk *stream.StreamChunk) {
	l := w.conn.link
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.ways[w.direction]
	a := arrival{at: time.Now()}
	if chunk != nil {
		a.data = chunk.Data
	}
	f.came += int64(len(a.data))
	if f.drop {
		w.conn.lossy = true
		return
	}
	w.queue = append(w.queue, a)
}

// stage takes what may go now out of the queue. changed is closed when that may have become more, and wait how long until
// more may go by itself, if it is known.
func (w *way) stage() (changed <-chan struct{}, wait time.Duration) {
	l := w.conn.link
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.ways[w.direction]
	// Nothing passes between the last byte before a cut and the cut.
	if l.ways[conformance.ToStore].last || l.ways[conformance.FromStore].last || w.conn.isBroken {
		return l.changed, 0
	}
	if w.staged != nil || w.eof || len(w.queue) == 0 || f.hold {
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
	w.staged = &stream.StreamChunk{Data: next.data[:n], Timestamp: next.at}
	w.queue = w.queue[1:]
	return l.changed, 0
}
