package redis

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/anylock/lock/backend"
)

// What redlock_renew.lua says of a lease.
const (
	leaseMissing = int64(0)
	leaseRenewed = int64(1)
	leaseOther   = int64(3)
)

var errMissing = errors.New("it does not have the lease")

// RenewBatch implements [backend.BatchRenewer]: each node is sent one pipeline, with leases by the dozen in one script.
func (r *Redlock) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return r.leases.RenewBatch(ctx, renewals, r.sendBatch)
}

// A rollCall is one renewal of some leases at all nodes. A lease is renewed if a quorum still had it; nodes that had lost
// it do not count, and get it back afterwards.
type rollCall struct {
	r       *Redlock
	t       *tally
	claims  []*claim
	granted []time.Duration
	number  []uint64
	sent    time.Time
	window  window
	// patience is how long to wait for what is under way for a lease.
	patience time.Duration
	index    []int // of the leases in the batch; others were refused before

	// By lease, guarded by t.mu until ask has returned.
	have, lack []int   // nodes that had it, nodes that said they had not
	missing    [][]int // nodes that had nothing in its place
}

func (r *Redlock) sendBatch(ctx context.Context, lives []*backend.Life, ttls []time.Duration) ([]time.Duration, []error) {
	granted, errs := make([]time.Duration, len(lives)), make([]error, len(lives))
	call := &rollCall{r: r, t: r.newTally(), sent: time.Now()}
	shortest := time.Duration(math.MaxInt64)
	for i, l := range lives {
		ttl, err := r.round(ttls[i])
		if err != nil {
			errs[i] = err
			continue
		}
		granted[i] = ttl
		c := l.Data.(*claim)
		call.claims = append(call.claims, c)
		call.granted = append(call.granted, ttl)
		call.number = append(call.number, c.number.Add(1))
		call.index = append(call.index, i)
		shortest = min(shortest, ttl)
	}
	n := len(call.claims)
	if n == 0 {
		return granted, errs
	}
	call.have, call.lack, call.missing = make([]int, n), make([]int, n), make([][]int, n)
	call.window = r.windowFor(shortest).needing(shortest)
	call.patience = nodeTimeout(shortest)
	call.t.certain = call.certain
	r.ask(ctx, call.t, call.window, call.ask)
	for k, i := range call.index {
		if errs[i] = call.outcome(ctx, k); errors.Is(errs[i], backend.ErrLost) {
			r.abandon(call.claims[k]) // a minority may have been renewed
		}
	}
	call.repair()
	return granted, errs
}

// certain reports whether every lease's outcome is.
func (call *rollCall) certain() bool {
	if call.t.yes < call.t.quorum {
		return false
	}
	for k := range call.claims {
		if call.have[k] < call.t.quorum && call.lack[k] <= call.t.n-call.t.quorum {
			return false
		}
	}
	return true
}

// outcome is the error of one lease.
func (call *rollCall) outcome(ctx context.Context, k int) error {
	switch {
	case call.have[k] >= call.t.quorum:
		return nil
	case call.lack[k] > call.t.n-call.t.quorum:
		return backend.ErrLost
	case backend.Ended(ctx):
		return backend.ContextError(ctx, nil)
	}
	errs := call.t.silent()
	for _, i := range call.missing[k] {
		errs[i] = errMissing
	}
	return call.r.noQuorum(errs)
}

// ask renews all leases at node i.
func (call *rollCall) ask(i int) (verdict, func(), error) {
	n := call.r.nodes[i]
	for _, c := range call.claims { // the grant may still be on its way to this node
		if c.busy(i) && c.enter(i, call.patience) == nil {
			c.leave(i)
		}
	}
	answers, clock, err := call.send(n)
	if err == nil {
		_ = n.observe(clock, call.r.ban) // a key that is there counts whatever the clock did before
	}
	return told(err), func() {
		for k := range answers {
			switch answers[k] {
			case leaseRenewed:
				call.have[k]++
			case leaseMissing:
				call.lack[k]++
				call.missing[k] = append(call.missing[k], i)
			case leaseOther:
				call.lack[k]++
			}
		}
	}, err
}

// send sends a node the scripts in one pipeline and returns its answers by lease.
func (call *rollCall) send(n *node) (answers []any, clock clockSample, err error) {
	sent := time.Now()
	replies, err := n.evalAll(call.requests())
	received := time.Now()
	if err != nil {
		return nil, clock, err
	}
	for _, r := range replies {
		list, _ := r.v.([]any)
		if len(list) == 0 {
			return nil, clock, errReply(r.v)
		}
		server, err := parseClock(list[0])
		if err != nil {
			return nil, clock, err
		}
		clock = clockSample{server, sent, received}
		answers = append(answers, list[1:]...)
	}
	if len(answers) != len(call.claims) {
		return nil, clock, errReply(answers)
	}
	return answers, clock, nil
}

func (call *rollCall) requests() (list []request) {
	for from := 0; from < len(call.claims); from += scriptLeases {
		var keys []string
		var args []any
		for k := from; k < min(from+scriptLeases, len(call.claims)); k++ {
			c := call.claims[k]
			keys = append(keys, c.keys[0])
			args = append(args, c.id, keepFor(call.granted[k]), call.number[k], c.token)
		}
		list = append(list, request{script: redlockRenew, keys: keys, args: args})
	}
	return list
}
