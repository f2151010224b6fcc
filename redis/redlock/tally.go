package redlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A verdict is what one node says in a round.
type verdict int

const (
	none verdict = iota // no answer, or none that counts
	yes
	no
)

// told is the verdict of a node that has done what was asked, or failed with err.
func told(err error) verdict {
	if err != nil {
		return none
	}
	return yes
}

// A tally counts the verdicts of one round, in which one question is put to every node. Its owner reads it when ask has returned.
type tally struct {
	n, quorum int
	begun     time.Time

	mu            sync.Mutex
	yes, no, mute int
	in            []bool        // nodes that have answered or failed
	errs          []error       // by node
	closed        bool          // what comes now comes too late to count
	news          chan struct{} // full when there is something for the one who waits

	// certain says when the outcome is certain. It is called with mu held.
	certain func() bool
}

// newTally returns a tally that ends when a quorum has said yes, or cannot any more.
func (r *Backend) newTally() *tally {
	n := len(r.nodes)
	t := &tally{
		n: n, quorum: n/2 + 1, begun: time.Now(), in: make([]bool, n), errs: make([]error, n), news: make(chan struct{}, 1),
	}
	t.certain = func() bool { return t.won() || t.hopeless() }
	return t
}

// newRollCall returns a tally that waits for all nodes, if they answer.
func (r *Backend) newRollCall() *tally {
	t := r.newTally()
	t.certain = func() bool { return false }
	return t
}

// answered counts the nodes that have said something.
func (t *tally) answered() int { return t.yes + t.no }

// won reports whether a quorum has said yes.
func (t *tally) won() bool { return t.yes >= t.quorum }

// hopeless reports whether no quorum can say yes any more.
func (t *tally) hopeless() bool { return t.n-t.no-t.mute < t.quorum }

// complete reports whether every node has answered or failed.
func (t *tally) complete() bool { return t.answered()+t.mute == t.n }

// enter counts one node's verdict, after running record, unless it comes too late.
func (t *tally) enter(i int, v verdict, record func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if record != nil {
		record()
	}
	t.in[i], t.errs[i] = true, err
	switch v {
	case yes:
		t.yes++
	case no:
		t.no++
	default:
		t.mute++
	}
	if t.complete() || t.answered() >= t.quorum || t.certain() {
		select {
		case t.news <- struct{}{}:
		default:
		}
	}
}

// A window says how long a round lasts.
type window struct {
	// node is how long to wait at most for the other nodes when a quorum has answered: what a hung one costs. It is less for a node that
	// usually answers sooner.
	node time.Duration
	// needed takes its place, if not 0, for nodes without which the round would fail, and that have not left the last request unanswered.
	needed time.Duration
	// outage is how long to wait for a quorum to answer. With fewer there is nothing to be had by returning sooner: it is
	// not a node that hangs, but a machine or network that is slow with all of them.
	outage time.Duration
	// linger waits for the other nodes, as long as for node, when the outcome is certain too.
	linger bool
}

// windowFor is the window of a request about a lease of ttl.
func (r *Backend) windowFor(ttl time.Duration) window {
	return window{node: nodeTimeout(ttl), outage: r.options.Timeout}
}

// needing is the window of a request that goes on after a quorum has answered only if it needs the nodes that have not: to give up would
// be to fail.
func (w window) needing(ttl time.Duration) window {
	const share = 4
	w.needed = max(w.node, min(ttl/share, w.outage))
	return w
}

// An entry enters what one node says: see tally.enter.
type entry func(v verdict, record func(), err error)

// ask puts one question to every node at once and returns when the outcome is certain, the window closes, or ctx ends. one
// asks node i, without waiting for it. Nodes that have not answered by then go on.
func (r *Backend) ask(ctx context.Context, t *tally, w window, one func(i int, enter entry)) {
	for i := range r.nodes {
		one(i, func(v verdict, record func(), err error) { t.enter(i, v, record, err) })
	}
	timer := time.NewTimer(w.outage)
	defer timer.Stop()
	for hurried := false; ; {
		select {
		case <-t.news:
		case <-ctx.Done():
			t.close()
			return
		case <-timer.C:
			t.close()
			return
		}
		t.mu.Lock()
		certain := t.certain()
		over := t.complete() || certain && !w.linger
		t.closed = over
		enough := !over && !hurried && (certain || t.answered() >= t.quorum)
		var more time.Duration
		if enough {
			for i, n := range r.nodes {
				if !t.in[i] {
					more = max(more, n.patience(w))
				}
			}
		}
		t.mu.Unlock()
		switch {
		case over:
			return
		case enough:
			hurried = true
			timer.Reset(min(more, max(w.outage-time.Since(t.begun), 0)))
		}
	}
}

func (t *tally) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// apart is a question that is put on goroutines of its own, because it blocks.
func (r *Backend) apart(one func(i int) (verdict, func(), error)) func(i int, enter entry) {
	return func(i int, enter entry) {
		if !r.usage.Calls.Background(func() { enter(one(i)) }) {
			enter(none, nil, backend.ErrClosed)
		}
	}
}

// isQuorate reports whether a quorum has answered.
func (t *tally) isQuorate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answered() >= t.quorum
}

// silent is the error of each node, errNoAnswer for those that have not answered yet.
func (t *tally) silent() []error {
	errs := slices.Clone(t.errs)
	for i, in := range t.in {
		if !in && errs[i] == nil {
			errs[i] = exchange.NoAnswer(time.Since(t.begun), nil)
		}
	}
	return errs
}
