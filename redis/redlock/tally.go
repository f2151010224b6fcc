package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A verdict is what one node says in a round.
type verdict int

const (
	silent verdict = iota // nothing yet
	yes
	no
	failed // it could not be asked, or its answer says nothing
)

// verdictOf is the verdict of a node that has done what was asked, or failed with err.
func verdictOf(err error) verdict {
	if err != nil {
		return failed
	}
	return yes
}

// A tally counts the verdicts of one round, in which one question is put to every node.
type tally struct {
	quorum int
	begun  time.Time
	said   []verdict   // by node
	errs   []error     // by node
	over   func() bool // whether the outcome is certain, so that the round may end
	// decided reports whether the outcome is certain although the round goes on: then window.needed ends; nil for never
	decided func() bool
}

// newTally returns a tally that ends when a quorum has said yes, or cannot any more.
func (r *Backend) newTally() *tally {
	n := len(r.nodes)
	t := &tally{quorum: n/2 + 1, begun: time.Now(), said: make([]verdict, n), errs: make([]error, n)}
	t.over = func() bool { return t.won() || t.cannotWin() }
	return t
}

// newTallyOfAll returns a tally that waits for all nodes, if they answer.
func (r *Backend) newTallyOfAll() *tally {
	t := r.newTally()
	t.over = func() bool { return false }
	return t
}

// number is how many nodes have said v.
func (t *tally) number(v verdict) (n int) {
	for _, said := range t.said {
		if said == v {
			n++
		}
	}
	return n
}

// answered counts the nodes that have said something.
func (t *tally) answered() int { return t.number(yes) + t.number(no) }

// won reports whether a quorum has said yes.
func (t *tally) won() bool { return t.number(yes) >= t.quorum }

// cannotWin reports whether no quorum can say yes any more.
func (t *tally) cannotWin() bool { return t.number(yes)+t.number(silent) < t.quorum }

// A window says how long a round lasts.
type window struct {
	// node is how long to wait at most for the other nodes when a quorum has answered: what a hung one costs. It is
	// less for a node that usually answers sooner.
	node time.Duration
	// needed takes its place, if not 0, for nodes without which the round would fail, and that have not left the last
	// request unanswered.
	needed time.Duration
	// outage is how long to wait for a quorum to answer. With fewer there is nothing to be had by returning sooner: it
	// is not a node that hangs, but a machine or network that is slow with all of them.
	outage time.Duration
}

// windowFor is the window of a request about a lease of ttl.
func (r *Backend) windowFor(ttl time.Duration) window {
	return window{node: nodeTimeout(ttl), outage: r.options.Timeout}
}

// needing is the window of a request that goes on after a quorum has answered only if it needs the nodes that have not:
// to give up would be to fail.
func (w window) needing(ttl time.Duration) window {
	const share = 4
	w.needed = max(w.node, min(ttl/share, w.outage))
	return w
}

// An answer is what one node says; record, if not nil, runs if it comes in time.
type answer struct {
	node   int
	said   verdict
	record func()
	err    error
}

// An entry enters the answer of one node.
type entry func(v verdict, record func(), err error)

// ask puts one question to every node at once and returns when the outcome is certain, the window closes, or ctx ends.
// one asks node i, without waiting for it. Nodes that have not answered by then go on, and count no more.
func (r *Backend) ask(ctx context.Context, t *tally, w window, one func(i int, enter entry)) {
	answers := make(chan answer, len(r.nodes)) // so that a late one blocks nobody
	for i := range r.nodes {
		one(i, func(v verdict, record func(), err error) { answers <- answer{i, v, record, err} })
	}
	limit := time.NewTimer(w.outage)
	defer limit.Stop()
	for hurried, late := false, false; ; {
		for len(answers) > 0 { // whatever has come by now counts
			t.enter(<-answers)
		}
		if late || t.number(silent) == 0 || t.over() {
			return
		}
		decided := t.decided != nil && t.decided()
		if t.answered() >= t.quorum && (!hurried || decided && w.needed > 0) {
			if hurried = true; decided {
				w.needed = 0
			}
			limit.Reset(min(r.patience(t, w), time.Until(t.begun.Add(w.outage))))
		}
		select {
		case a := <-answers:
			t.enter(a)
		case <-limit.C:
			late = true
		case <-ctx.Done():
			late = true
		}
	}
}

func (t *tally) enter(a answer) {
	t.said[a.node], t.errs[a.node] = a.said, a.err
	if a.record != nil {
		a.record()
	}
}

// patience is how long to wait for the nodes that are silent when a quorum has answered.
func (r *Backend) patience(t *tally, w window) (longest time.Duration) {
	for i, n := range r.nodes {
		if t.said[i] == silent {
			longest = max(longest, n.patience(w))
		}
	}
	return longest
}

// apart is a question that is put on goroutines of its own, because it blocks.
func (r *Backend) onGoroutines(one func(i int) (verdict, func(), error)) func(i int, enter entry) {
	return func(i int, enter entry) {
		if !r.leases.Go(func(context.Context) { enter(one(i)) }) {
			enter(failed, nil, backend.ErrClosed)
		}
	}
}

// misses is the error of each node, ErrNoAnswer for those that have not answered.
func (t *tally) misses() []error {
	errs := slices.Clone(t.errs)
	for i, said := range t.said {
		if said == silent {
			errs[i] = exchange.NoAnswer(time.Since(t.begun), nil)
		}
	}
	return errs
}
