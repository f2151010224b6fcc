package redlock

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// What renew.lua says of a lease.
const (
	leaseMissing = int64(0)
	leaseRenewed = int64(1)
	leaseOther   = int64(3)
)

var errMissing = errors.New("it does not have the lease")

// RenewBatch implements [backend.BatchRenewer]: each node is sent one pipeline, with leases by the dozen in one script.
func (r *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return r.leases.RenewBatch(ctx, renewals, r.sendBatch)
}

// A rollCall is one renewal of some leases at all nodes. A lease is renewed if a quorum still had it; nodes that had lost
// it do not count, and get it back afterwards.
type rollCall struct {
	r       *Backend
	t       *tally
	claims  []*claim
	granted []time.Duration
	number  []uint64
	sent    time.Time

	// By lease, guarded by t.mu until ask has returned.
	have, lack []int   // nodes that had it, nodes that said they had not
	missing    [][]int // nodes that had nothing in its place
}

func (r *Backend) sendBatch(ctx context.Context, lives []*backend.Life, ttls []time.Duration) ([]time.Duration, []error) {
	errs := make([]error, len(lives))
	call := &rollCall{r: r, t: r.newTally(), sent: time.Now()}
	index := make([]int, 0, len(lives)) // of the leases in the batch; others are refused before
	shortest := time.Duration(math.MaxInt64)
	for i, l := range lives {
		ttl := ttls[i]
		if _, errs[i] = r.round(ttl); errs[i] != nil {
			continue
		}
		c := l.Data.(*claim)
		call.claims = append(call.claims, c)
		call.granted = append(call.granted, ttl)
		call.number = append(call.number, c.number.Add(1))
		index = append(index, i)
		shortest = min(shortest, ttl)
	}
	n := len(call.claims)
	if n == 0 {
		return ttls, errs
	}
	call.have, call.lack, call.missing = make([]int, n), make([]int, n), make([][]int, n)
	call.t.certain = call.certain
	r.ask(ctx, call.t, r.windowFor(shortest).needing(shortest), call.ask)
	for k, i := range index {
		if errs[i] = call.outcome(ctx, k); errors.Is(errs[i], backend.ErrLost) {
			r.abandon(call.claims[k]) // a minority may have been renewed
		}
	}
	call.repair()
	return ttls, errs
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

// ask renews all leases at node i, by the scripts in one pipeline.
func (call *rollCall) ask(i int, enter entry) {
	n, sent := call.r.nodes[i], time.Now()
	n.postAll(call.requests(), func(results []exchange.Result, err error) {
		var answers []any
		if err == nil {
			var clock clockSample
			if answers, clock, err = call.read(results, sent); err == nil {
				_ = n.observe(clock, call.r.ban) // a key that is there counts whatever the clock did before
			}
		}
		for k, a := range answers {
			if a == leaseMissing && call.claims[k].part(i).busy {
				answers[k] = nil // the grant may still be on its way to this node
			}
		}
		enter(told(err), func() { call.count(i, answers) }, err)
	})
}

func (call *rollCall) count(i int, answers []any) {
	for k, a := range answers {
		switch a {
		case leaseRenewed:
			call.have[k]++
		case leaseMissing:
			call.lack[k]++
			call.missing[k] = append(call.missing[k], i)
		case leaseOther:
			call.lack[k]++
		}
	}
}

// read takes a node's answers apart, by lease.
func (call *rollCall) read(results []exchange.Result, sent time.Time) (answers []any, clock clockSample, err error) {
	received := time.Now()
	for _, r := range results {
		list, _ := r.V.([]any)
		if len(list) == 0 {
			return nil, clock, exchange.ErrReply(r.V)
		}
		server, err := parseClock(list[0])
		if err != nil {
			return nil, clock, err
		}
		clock = clockSample{server, sent, received}
		answers = append(answers, list[1:]...)
	}
	if len(answers) != len(call.claims) {
		return nil, clock, exchange.ErrReply(answers)
	}
	return answers, clock, nil
}

func (call *rollCall) requests() (list []exchange.Request) {
	for from := 0; from < len(call.claims); from += exchange.ScriptLeases {
		var keys []string
		var args []any
		for k := from; k < min(from+exchange.ScriptLeases, len(call.claims)); k++ {
			c := call.claims[k]
			keys = append(keys, c.keys[0])
			args = append(args, c.id, keepFor(call.granted[k]), call.number[k], c.token)
		}
		list = append(list, exchange.Request{Script: renewScript, Keys: keys, Args: args})
	}
	return list
}

// repair puts leases that were renewed back on the nodes that had lost them, in the background. They count there from the
// next renewal on: to count them at once would revive leases that have expired.
func (call *rollCall) repair() {
	for k, nodes := range call.missing {
		if call.have[k] < call.t.quorum {
			continue
		}
		for _, i := range nodes {
			call.repairAt(i, k, func(error) {}) // where it fails the next renewal finds it again
		}
	}
}

func (call *rollCall) repairAt(i, k int, done func(error)) {
	c, n := call.claims[k], call.r.nodes[i]
	c.write(n, i, call.number[k], func(ended func(trace, error)) {
		left := time.Until(backend.Deadline(call.sent, call.granted[k]))
		if left <= 0 {
			ended(untold, nil)
			return
		}
		n.post(exchange.Request{
			Script: repairScript, Keys: c.keys[:2], Args: []any{c.id, keepFor(left), call.number[k], c.token},
		}, func(v any, err error) {
			switch {
			case err != nil:
				ended(untold, err)
			case v == int64(1):
				ended(present, nil)
			case v == int64(0):
				ended(missing, nil)
			default:
				ended(untold, exchange.ErrReply(v))
			}
		})
	}, done)
}
