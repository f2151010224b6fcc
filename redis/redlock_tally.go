package redis

import (
	"context"
	"slices"
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
	begun     time.Time

	mu            sync.Mutex
	yes, no, mute int
	expected      int     // nodes that have not answered yet, but for those that seemed to hang from the start
	in            []bool  // nodes that have answered or failed
	errs          []error // by node
	hangs         []bool  // nodes that seemed to hang from the start
	closed        bool    // what comes now comes too late to count
	ended         bool
	end           chan struct{} // closed when the outcome is certain
	quorate       chan struct{} // closed when a quorum has answered
	all           chan struct{} // closed when no answer is expected any more

	// certain says when the outcome is certain. It is called with mu held.
	certain func() bool
}

// told is the verdict of a node that has done what was asked, or failed with err.
func told(err error) verdict {
	if err != nil {
		return none
	}
	return yes
}

// newTally returns a tally that ends when a quorum has said yes, or cannot any more.
func (r *Redlock) newTally() *tally {
	n := len(r.nodes)
	t := &tally{
		n: n, quorum: n/2 + 1, begun: time.Now(), in: make([]bool, n), errs: make([]error, n), hangs: make([]bool, n),
		end: make(chan struct{}), quorate: make(chan struct{}), all: make(chan struct{}),
	}
	t.certain = func() bool { return t.won() || t.hopeless() }
	return t
}

// answered counts the nodes that have said something.
func (t *tally) answered() int { return t.yes + t.no }

// won reports whether a quorum has said yes.
func (t *tally) won() bool { return t.yes >= t.quorum }

// hopeless reports whether no quorum can say yes any more.
func (t *tally) hopeless() bool { return t.n-t.no-t.mute < t.quorum }

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
	before := t.answered()
	switch v {
	case yes:
		t.yes++
	case no:
		t.no++
	default:
		t.mute++
	}
	if !t.ended && (t.answered()+t.mute == t.n || t.certain()) {
		t.ended = true
		close(t.end)
	}
	if before < t.quorum && t.answered() == t.quorum {
		close(t.quorate)
	}
	if !t.hangs[i] {
		if t.expected--; t.expected == 0 {
			close(t.all)
		}
	}
}

// A window says how long a round lasts.
type window struct {
	// node is how long to wait for the other nodes when a quorum has answered: what a hung one costs at most. A node hangs
	// that answers nobody for so long, or for four times as long as it usually takes if that is more; while it answers
	// others, it is waited for as long as for a quorum.
	node time.Duration
	// outage is how long to wait for a quorum to answer. With fewer there is nothing to be had by returning sooner: it is
	// not a node that hangs, but a machine or network that is slow with all of them.
	outage time.Duration
	// linger waits for the other nodes, as long as for node, when the outcome is certain too.
	linger bool
	// hung waits for nodes that seemed to hang from the start like for others.
	hung bool
}

// ask puts one question to every node at once and returns when the outcome is certain, the window closes, or ctx ends. one
// asks node i; what it returns is recorded and counted, unless it comes too late. Nodes that have not answered by then go on
// in the background.
func (r *Redlock) ask(ctx context.Context, t *tally, w window, one func(i int) (verdict, func(), error)) {
	for i, n := range r.nodes {
		if t.hangs[i] = n.hangs() && !w.hung; !t.hangs[i] {
			t.expected++
		}
	}
	if t.expected == 0 { // then all are waited for
		clear(t.hangs)
		t.expected = t.n
	}
	for i := range r.nodes {
		if !r.calls.Begin() {
			t.enter(i, none, nil, nil)
			continue
		}
		r.crew.run(func() {
			defer r.calls.End()
			v, record, err := one(i)
			t.enter(i, v, record, err)
		})
	}
	r.await(ctx, t, w)
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
}

// await returns when the round is over.
func (r *Redlock) await(ctx context.Context, t *tally, w window) {
	begun := time.Now()
	timer := time.NewTimer(w.outage)
	defer timer.Stop()
	end, quorate, all := t.end, t.quorate, t.all
	// The node's time is waited for in steps: when this process does not get to run, that is no fault of the node.
	const steps = 5
	left := 0
	step := func(n int) {
		left = n
		timer.Reset(w.node / steps)
	}
	for {
		select {
		case <-end:
			if !w.linger {
				return
			}
			end = nil
			step(steps)
		case <-quorate:
			quorate = nil
			if end != nil {
				step(steps)
			}
		case <-all:
			all = nil
			if t.enough() {
				return
			}
		case <-ctx.Done():
			return
		case <-timer.C:
			if left > 1 {
				step(left - 1)
				continue
			}
			more := r.patience(t, w.node)
			if more <= 0 || time.Since(begun) >= w.outage {
				return
			}
			timer.Reset(more)
		}
	}
}

// patience is how long to go on waiting for nodes that have not answered this round but do answer others.
func (r *Redlock) patience(t *tally, node time.Duration) (more time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, n := range r.nodes {
		if !t.in[i] {
			more = max(more, n.patience(node))
		}
	}
	return more
}

// enough reports whether a quorum has answered, or the outcome is certain without.
func (t *tally) enough() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended || t.answered() >= t.quorum
}

// isQuorate reports whether a quorum has answered.
func (t *tally) isQuorate() bool {
	select {
	case <-t.quorate:
		return true
	default:
		return false
	}
}

// silent is the error of each node, errNoAnswer for those that have not answered yet.
func (t *tally) silent() []error {
	errs := slices.Clone(t.errs)
	for i, in := range t.in {
		if !in && errs[i] == nil {
			errs[i] = noAnswer(time.Since(t.begun), nil)
		}
	}
	return errs
}
