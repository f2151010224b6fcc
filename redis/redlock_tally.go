package redis

import (
	"context"
	"sync"
	"time"
)

// A verdict is what one node says in a round.
type verdict int

const (
	none verdict = iota // no answer, or none that counts
	yes
	no
)

// A tally counts the verdicts of one round. Its owner reads it when ask has returned.
type tally struct {
	n, quorum int

	mu            sync.Mutex
	yes, no, mute int
	closed        bool // what comes now comes too late to count
	ended         bool
	end           chan struct{} // closed when the outcome is certain
	all           chan struct{} // closed when every node has answered or failed

	// certain says when the outcome is certain. It is called with mu held.
	certain func() bool
}

// newTally returns a tally that ends when a quorum has said yes, or cannot any more.
func (r *Redlock) newTally() *tally {
	t := &tally{n: len(r.nodes), quorum: len(r.nodes)/2 + 1, end: make(chan struct{}), all: make(chan struct{})}
	t.certain = func() bool { return t.won() || t.hopeless() }
	return t
}

// answered counts the nodes that have said something.
func (t *tally) answered() int { return t.yes + t.no }

// hopeless reports whether no quorum can say yes any more.
func (t *tally) hopeless() bool { return t.n-t.no-t.mute < t.quorum }

// won reports whether a quorum has said yes.
func (t *tally) won() bool { return t.yes >= t.quorum }

// denied reports whether so many have said no that no quorum can exist, whatever the others would say.
func (t *tally) denied() bool { return t.no > t.n-t.quorum }

// enter counts one node's verdict, after running record with whether it comes too late to count.
func (t *tally) enter(v verdict, record func(late bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if record != nil {
		record(t.closed)
	}
	if t.closed {
		return
	}
	switch v {
	case yes:
		t.yes++
	case no:
		t.no++
	default:
		t.mute++
	}
	all := t.answered()+t.mute == t.n
	if !t.ended && (all || t.certain()) {
		t.ended = true
		close(t.end)
	}
	if all {
		close(t.all)
	}
}

// A window says how long a round lasts.
type window struct {
	// node is how long to wait for a node when a quorum has answered.
	node time.Duration
	// outage is how long to wait for a quorum: with fewer there is nothing to be had by returning sooner, and a busy
	// machine or network may be slow with all of them.
	outage time.Duration
	// linger waits for the nodes that have not answered when the outcome is certain, as long again as that took.
	linger bool
}

// ask puts one question to every node at once and returns when the outcome is certain, the window closes, or ctx ends. one
// asks node i; what it returns is counted, or only recorded if it comes too late. Nodes that have not answered by then go on
// in the background.
func (r *Redlock) ask(ctx context.Context, t *tally, w window, one func(i int) (v verdict, record func(late bool))) {
	begun := time.Now()
	for i := range r.nodes {
		if !r.calls.begin() {
			t.enter(none, nil)
			continue
		}
		go func() {
			defer r.calls.end()
			t.enter(one(i))
		}()
	}
	t.wait(ctx, begun, w)
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
}

func (t *tally) wait(ctx context.Context, begun time.Time, w window) {
	timer := time.NewTimer(w.node)
	defer timer.Stop()
	for {
		select {
		case <-t.end:
			if w.linger {
				t.linger(ctx, begun, w.node)
			}
			return
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		t.mu.Lock()
		answered := t.answered()
		t.mu.Unlock()
		left := w.outage - time.Since(begun)
		if answered >= t.quorum || left <= 0 {
			return
		}
		timer.Reset(min(w.node, left))
	}
}

// linger waits for the rest, for as long as the others have taken, within the node's time.
func (t *tally) linger(ctx context.Context, begun time.Time, node time.Duration) {
	const least = time.Millisecond
	took := time.Since(begun)
	timer := time.NewTimer(min(took+least, node-took))
	defer timer.Stop()
	select {
	case <-t.all:
	case <-ctx.Done():
	case <-timer.C:
	}
}
