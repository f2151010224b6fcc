// Package link puts a breakable link between a client and its store, for the suite of package conformance:
//
//	conformance.Harness{
//		Open:   func(ctx context.Context) (backend.Backend, error) { … },
//		Linked: link.URL("redis://localhost:6379"),
//	}
//
// The link is a TCP proxy. Any store that is reached by host and port can use one: by its URL ([URL]), or by a function
// that opens a client for given addresses ([Linked]).
package link

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/anylock/lock/conformance"
)

// A Link is a [conformance.Link] made of TCP connections, to one server or to several servers that fail together.
type Link struct {
	ports   []*port
	open    context.Context // ends with Close of the link
	close   func()
	running sync.WaitGroup

	dials sync.Mutex // held while the link changes how it answers dials: Refuse, Ignore, Heal, Close

	mu      sync.Mutex
	ways    [2]directionState // indexed by conformance.Direction
	changed chan struct{}     // closed and replaced when a fault begins or ends
	refuse  bool
	ignore  bool
	fillers []net.Conn // connections that keep the kernel's accept queue full
	paused  int        // number of listeners that do not accept while dials are ignored
	closed  bool
	conns   map[*conn]struct{}
}

var _ conformance.Link = (*Link)(nil)

// A directionState is the state of one direction: its active faults and its byte counts.
type directionState struct {
	received, passed int64
	hold, drop       bool
	delay            time.Duration
	cutting          bool
	left             int64 // bytes that may pass before the cut
	last             bool  // the last bytes before the cut are being written
	happened         chan struct{}
}

// New makes a link without faults to the servers at upstreams, each host:port.
func New(upstreams ...string) (*Link, error) {
	l := &Link{changed: make(chan struct{}), conns: make(map[*conn]struct{})}
	l.open, l.close = context.WithCancel(context.Background())
	for _, upstream := range upstreams {
		p := &port{link: l, upstream: upstream}
		var err error
		if p.addr, p.release, err = reserve(); err == nil {
			l.ports = append(l.ports, p)
			err = p.listen()
		}
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("link to %s: %w", upstream, err)
		}
	}
	return l, nil
}

// Addrs returns the addresses at which clients reach the link: one for each server, in the order given to New.
func (l *Link) Addrs() []string {
	addrs := make([]string, len(l.ports))
	for i, p := range l.ports {
		addrs[i] = p.addr
	}
	return addrs
}

// change calls f, which changes the faults, and wakes the goroutines that wait for a change.
func (l *Link) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.changedLocked()
}

// changedLocked wakes the goroutines that wait for a change. The caller holds mu.
func (l *Link) changedLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Cut implements conformance.Link.
func (l *Link) Cut() {
	l.mu.Lock()
	broken := l.breakLocked(func(*conn) bool { return true })
	l.mu.Unlock()
	await(broken)
}

// breakLocked breaks the connections that which selects.
func (l *Link) breakLocked(which func(*conn) bool) (broken []*conn) {
	for c := range l.conns {
		if which(c) {
			c.breakLocked()
			broken = append(broken, c)
		}
	}
	return broken
}

// await returns when both directions of every broken connection have ended, or after a second. A write to a peer that
// does not read may hang, but its connection is broken all the same.
func await(broken []*conn) {
	enough := time.NewTimer(time.Second)
	defer enough.Stop()
	for _, c := range broken {
		select {
		case <-c.over:
		case <-enough.C:
			return
		}
	}
}

// CutAfter implements conformance.Link.
func (l *Link) CutAfter(d conformance.Direction, n int64) <-chan struct{} {
	happened := make(chan struct{})
	l.change(func() {
		f := &l.ways[d]
		f.cutting, f.left, f.last, f.happened = true, n, false, happened
	})
	return happened
}

// reached makes the cut that CutAfter has arranged, unless the cut was cancelled.
func (l *Link) reached(happened chan struct{}) {
	happens := false
	var broken []*conn
	l.change(func() {
		for d := range l.ways {
			if f := &l.ways[d]; f.cutting && f.happened == happened {
				f.cutting, f.last, happens = false, false, true
				broken = l.breakLocked(func(*conn) bool { return true })
			}
		}
	})
	if happens {
		go func() { // the caller must return, so that its own connection can end
			await(broken)
			close(happened)
		}()
	}
}

// Refuse implements conformance.Link. The kernel refuses each new dial, because nobody listens on the link's ports. No
// other program can bind the ports meanwhile, except on systems other than Unix, such as Windows.
func (l *Link) Refuse() {
	l.dials.Lock()
	defer l.dials.Unlock()
	l.stopIgnoring()
	l.change(func() { l.refuse, l.ignore = true, false })
	for _, p := range l.ports {
		p.stop()
	}
	l.Cut()
}

// Hold implements conformance.Link.
func (l *Link) Hold(d conformance.Direction) { l.change(func() { l.ways[d].hold = true }) }

// Drop implements conformance.Link.
func (l *Link) Drop(d conformance.Direction) { l.change(func() { l.ways[d].drop = true }) }

// Delay implements conformance.Link.
func (l *Link) Delay(d conformance.Direction, by time.Duration) {
	l.change(func() { l.ways[d].delay = by })
}

// Heal implements conformance.Link.
func (l *Link) Heal() {
	var broken []*conn
	l.dials.Lock()
	defer l.dials.Unlock()
	l.stopIgnoring()
	l.listen()
	l.change(func() {
		l.refuse, l.ignore = false, false
		for d := range l.ways {
			f := &l.ways[d]
			*f = directionState{received: f.received, passed: f.passed}
		}
		broken = l.breakLocked(func(c *conn) bool { return c.lossy || c.stranded })
	})
	await(broken)
}

// Passed implements conformance.Link.
func (l *Link) Passed(d conformance.Direction) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ways[d].passed
}

// Arrived implements conformance.Link.
func (l *Link) Arrived(d conformance.Direction) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ways[d].received
}

// Connections implements conformance.Link.
func (l *Link) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// Close implements conformance.Link.
func (l *Link) Close() {
	l.dials.Lock()
	defer l.dials.Unlock()
	l.stopIgnoring()
	l.change(func() { l.closed = true })
	l.close()
	for _, p := range l.ports {
		p.stop()
		p.free()
	}
	l.Cut()
	l.running.Wait()
}
