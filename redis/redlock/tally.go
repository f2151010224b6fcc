package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A verdict is one node's result in a round.
type verdict int

const (
	silent verdict = iota // no reply yet
	yes
	no
	failed // the request failed, or the reply is of no use
)

// verdictOf returns the verdict of a node whose result is err.
func verdictOf(err error) verdict {
	switch {
	case err == nil:
		return yes
	case errors.As(err, new(*backend.HeldError)), errors.As(err, new(*noVoteError)), errors.Is(err, errLate):
		return no
	}
	return failed
}

// A tally counts the verdicts of one round, in which every node gets the same request.
type tally struct {
	quorum   int
	begun    time.Time
	verdicts []verdict   // by node
	errs     []error     // by node
	mayEnd   func() bool // reports whether the outcome is certain, so that the round may end; nil means never
	// decided reports whether the outcome is certain although the round continues. Then window.needed no longer applies.
	// nil means never.
	decided func() bool
}

// newTally returns a tally whose round waits for all nodes, within its window.
func (r *Backend) newTally() *tally {
	n := len(r.nodes)
	return &tally{quorum: n/2 + 1, begun: time.Now(), verdicts: make([]verdict, n), errs: make([]error, n)}
}

// number returns how many nodes have the verdict v.
func (t *tally) number(v verdict) (n int) {
	for _, got := range t.verdicts {
		if got == v {
			n++
		}
	}
	return n
}

// answered returns how many nodes have the verdict yes or no.
func (t *tally) answered() int { return t.number(yes) + t.number(no) }

// missing returns how many nodes have neither verdict.
func (t *tally) missing() int { return len(t.verdicts) - t.answered() }

// won reports whether a quorum of nodes has the verdict yes.
func (t *tally) won() bool { return t.number(yes) >= t.quorum }

// A window limits how long a round lasts.
type window struct {
	// node is how long to wait at most for the other nodes once a quorum has replied, and so the delay by a node that
	// hangs. The wait is shorter for a node that usually replies sooner.
	node time.Duration
	// needed, if not 0, replaces node until the outcome is decided. It does not apply to nodes whose last request got no
	// reply.
	needed time.Duration
	// outage is how long to wait for a quorum to reply. Returning sooner gains nothing: the cause is not one node that
	// hangs, but a machine or network that is slow for all nodes.
	outage time.Duration
}

// windowFor returns the window of a request about a lease of ttl. Such a request waits longer for a missing node if it
// would fail without that node.
func (r *Backend) windowFor(ttl time.Duration) window {
	const share = 4
	node, outage := nodeTimeout(ttl), r.options.Timeout
	return window{node: node, needed: max(node, min(ttl/share, outage)), outage: outage}
}

// An answer is one node's result. record, if not nil, runs if the node has replied in time.
type answer struct {
	node   int
	record func()
	err    error
}

// A deliverFunc delivers one node's answer.
type deliverFunc func(record func(), err error)

// runRound sends one request to every node at once, and returns when the outcome is certain, the window closes, or ctx
// ends. one sends the request to node i without waiting for the reply. Replies that arrive after runRound has returned
// do not count.
func (r *Backend) runRound(ctx context.Context, t *tally, w window, one func(i int, deliver deliverFunc)) {
	answers := make(chan answer, len(r.nodes)) // buffered, so that a late answer blocks nobody
	for i := range r.nodes {
		one(i, func(record func(), err error) { answers <- answer{i, record, err} })
	}
	limit := time.NewTimer(w.outage)
	defer limit.Stop()
	for limitShortened, late := false, false; ; {
		for len(answers) > 0 { // every answer that has arrived counts
			t.record(<-answers)
		}
		if late || t.number(silent) == 0 || t.mayEnd != nil && t.mayEnd() {
			return
		}
		decided := t.decided != nil && t.decided()
		if t.answered() >= t.quorum && (!limitShortened || decided && w.needed > 0) {
			if limitShortened = true; decided {
				w.needed = 0
			}
			limit.Reset(min(r.patience(t, w), time.Until(t.begun.Add(w.outage))))
		}
		select {
		case a := <-answers:
			t.record(a)
		case <-limit.C:
			late = true
		case <-ctx.Done():
			late = true
		}
	}
}

func (t *tally) record(a answer) {
	v := verdictOf(a.err)
	t.verdicts[a.node], t.errs[a.node] = v, a.err
	if a.record != nil && v != failed {
		a.record()
	}
}

// patience returns how long to wait for the silent nodes once a quorum has replied.
func (r *Backend) patience(t *tally, w window) (longest time.Duration) {
	for i, n := range r.nodes {
		if t.verdicts[i] == silent {
			longest = max(longest, n.patience(w))
		}
	}
	return longest
}

// onGoroutines returns a function for runRound that calls one on a new goroutine, because one blocks.
func (r *Backend) onGoroutines(one func(i int) (record func(), err error)) func(i int, deliver deliverFunc) {
	return func(i int, deliver deliverFunc) {
		if !r.leases.Go(func(context.Context) { deliver(one(i)) }) {
			deliver(nil, backend.ErrClosed)
		}
	}
}

// nodeErrors returns the error of each node: ErrNoAnswer for nodes that have not replied.
func (t *tally) nodeErrors() []error {
	errs := slices.Clone(t.errs)
	for i, v := range t.verdicts {
		if v == silent {
			errs[i] = exchange.NoAnswer(time.Since(t.begun), nil)
		}
	}
	return errs
}

// quorumError returns why a round has not got a quorum of yes. It is nil if the round has.
func (r *Backend) quorumError(t *tally) error {
	if t.won() {
		return nil
	}
	return r.noQuorum(t.nodeErrors())
}
