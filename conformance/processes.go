package conformance

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks with other processes that are frozen or killed, or whose clock is wrong.
var processChecks = []Check{
	{
		Name: "FrozenHolderLosesKey",
		Rule: "rules 3, 5 and 6: a frozen process's key is free by its TTL and MaxLate; thawed, it learns " +
			"of the loss, and touches nothing",
		Needs: []Need{needsProcess},
		run:   frozenHolderLosesKey,
	},
	{
		Name: "ThawedRenewalRevivesNothing",
		Rule: "rules 5 and 6: a renewal under way when its process is frozen does not succeed when it is thawed " +
			"past the deadline",
		Needs: []Need{needsProcess},
		run:   thawedRenewalRevivesNothing,
	},
	{
		Name: "FrozenInsideAcquire",
		Rule: "rules 1, 2 and 3: an attempt under way when its process is frozen gives no lease in the time of " +
			"the next owner's",
		Needs: []Need{needsProcess},
		run:   frozenInsideAcquire,
	},
	{
		Name: "FrozenWaiterDelaysNextBriefly",
		Rule: "rules 1 and 9: a frozen waiter delays the next for its TTL and MaxLate; thawed, it does not hold a key " +
			"that was given to the next",
		Needs: []Need{needsProcess},
		run:   frozenWaiterDelaysNextBriefly,
	},
	{
		Name: "FrozenWaitersDelayNextBriefly",
		Rule: "rules 1 and 9: frozen waiters, of several processes, delay the next for the TTL and MaxLate of each at " +
			"most, and cost none behind them its place",
		Needs: []Need{needsProcess},
		run:   frozenWaitersDelayNextBriefly,
	},
	{
		Name:  "ThawedWaiterGetsTurn",
		Rule:  "rule 9: a waiter that was frozen for longer than its TTL is not parked on a free key when it is thawed",
		Needs: []Need{needsProcess},
		run:   thawedWaiterGetsTurn,
	},
	{
		Name: "KilledHolderFreesKey",
		Rule: "rules 3, 6 and 9: the key of a killed process is free by its TTL and MaxLate, for an attempt and for a " +
			"waiter; while it lives, others list and break its leases, of which it is notified where Guarantees.ReportsLoss " +
			"says so",
		Needs: []Need{needsProcess},
		run:   killedHolderFreesKey,
	},
	{
		Name: "KilledWaiterDelaysNextBriefly",
		Rule: "rule 9: a waiter that is killed delays the next for its TTL and MaxLate at most, whether its turn " +
			"has come or not",
		Needs: []Need{needsProcess},
		run:   killedWaiterDelaysNextBriefly,
	},
	{
		Name: "KilledInsideAcquire",
		Rule: "rules 3 and 4: a process killed at any moment of an Acquire, shared or not, leaves nothing that " +
			"outlives its TTL and MaxLate",
		Needs: []Need{needsProcess},
		run:   killedInsideAcquire,
	},
	{
		Name: "KilledInsideRelease",
		Rule: "rule 3: a process killed at any moment of a Release, of a reader too, leaves nothing that outlives " +
			"its TTL and MaxLate",
		Needs: []Need{needsProcess},
		run:   killedInsideRelease,
	},
	{
		Name: "KilledInsideRenew",
		Rule: "rule 3: a process killed at any moment of a Renew, of a reader too, leaves a lease that ends by " +
			"its TTL and MaxLate",
		Needs: []Need{needsProcess},
		run:   killedInsideRenew,
	},
	{
		Name: "ProcessesExclude",
		Rule: "rules 1 and 7: no two leases overlap, whichever process they are granted to, and tokens increase " +
			"over all of them",
		Needs: []Need{needsProcess},
		run:   processesExclude,
	},
	{
		Name: "WrongClockEndsNothingEarly",
		Rule: "rules 1 and 3: leases end neither sooner nor later for a process whose wall clock is an hour off, nor " +
			"because of it",
		Needs: []Need{needsProcess},
		run:   wrongClockEndsNothingEarly,
	},
	{
		Name: "WrongClockKeepsOrder",
		Rule: "rules 7 and 9: tokens increase, and waiters get their turn, among processes whose wall clocks are " +
			"two hours apart",
		Needs: []Need{needsProcess},
		run:   wrongClockKeepsOrder,
	},
}

// A remote is an Acquire in another process.
type remote struct {
	t          *trial
	process    Process
	key, owner string
	ttl        time.Duration
	wait       bool
	before     time.Time // taken before Acquire was called
	answers    <-chan ProcessGrant

	answer ProcessGrant // set when the Acquire has ended
	after  time.Time    // taken when the Acquire had ended
}

// remotely begins an Acquire in process p.
func (t *trial) remotely(p Process, key string, ttl time.Duration, wait bool) *remote {
	return t.remoteRequest(p, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait})
}

func (t *trial) remoteRequest(p Process, q backend.Request) *remote {
	r := &remote{t: t, process: p, key: q.Key, owner: q.Owner, ttl: q.TTL, wait: q.Wait, before: time.Now()}
	var err error
	if r.answers, err = p.Acquire(q); err != nil {
		t.fatalf("another process does not begin an Acquire: %v", err)
	}
	return r
}

// remoteWait begins a waiting Acquire in process p, and returns when it is the n-th waiter for key.
func (t *trial) remoteWait(p Process, key string, ttl time.Duration, n int) *remote {
	r := t.remotely(p, key, ttl, true)
	r.arrives(n)
	return r
}

// arrives waits until r is the n-th waiter for its key.
func (r *remote) arrives(n int) {
	t := r.t
	if !t.poll(soon, func() bool {
		h := t.inspect(r.key)
		return h.Waiters < 0 || h.Waiters >= n || r.answered(0)
	}) {
		t.fatalf("Inspect does not count %d waiters after %v, of which the last waits in another process", n, soon)
	}
	time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch)) // so that the waiter knows its place, too
	if r.answered(0) {
		t.unavailable(r.answer.Err, r.before)
		t.fatalf("an Acquire that waits in another process ended while the key was held: %+v", r.answer)
	}
}

// answered reports whether the Acquire has ended, or ends within d.
func (r *remote) answered(d time.Duration) bool {
	done := func() bool {
		select {
		case r.answer = <-r.answers:
			r.after = time.Now()
		default:
		}
		return !r.after.IsZero()
	}
	return done() || r.t.poll(d, done)
}

// granted waits for the lease, which must be granted within d.
func (r *remote) granted(d time.Duration, when string) {
	if !r.answered(d) {
		r.t.notInTime(r.t.ruleText(9), "%s: another process has not been granted the free key within %v", when, d)
	}
	if err := r.answer.Err; err != nil {
		if errors.Is(err, backend.ErrLost) && r.after.Sub(r.before) > r.t.g.Round(r.ttl)/2 {
			r.t.tooLate("%s: a grant to another process took %v of its TTL of %v to arrive", when, r.after.Sub(r.before), r.ttl)
		}
		if r.wait {
			r.t.unavailable(err, r.before)
		} else {
			r.t.lateOnTimeout(err, r.before)
		}
		r.t.fatalf("%s: Acquire in another process: %v", when, err)
	}
}

// remoteHold acquires key, which must be free, in process p.
func (t *trial) remoteHold(p Process, key string, ttl time.Duration) *remote {
	r := t.remotely(p, key, ttl, false)
	r.granted(soon, "free key")
	return r
}

// until returns the last instant at which the lease of r was certainly exclusive. If it is unknown when the process
// read Left, Left counts from before the request.
func (r *remote) until() time.Time {
	if r.answer.Looked.IsZero() {
		return r.before.Add(r.answer.Left)
	}
	return r.answer.Looked.Add(r.answer.Left)
}

// claimsLive reports whether a thawed process still treats its lease as live. A process that was frozen just before its
// reply reports the past. If the time of its reading is unknown, its lease must be lost soon.
func (r *remote) claimsLive() bool {
	if r.answer.Err != nil || r.answer.Left <= 0 {
		return false
	}
	if !r.answer.Looked.IsZero() {
		return r.after.Before(r.until())
	}
	return !r.t.poll(r.answer.Left/2, func() bool {
		lost, err := r.process.Lost(r.t.ctx, r.owner)
		return err == nil && lost
	})
}

// release releases the lease of r, which must succeed.
func (r *remote) release() {
	begun := time.Now()
	if err := r.process.Release(r.t.ctx, r.owner); err != nil {
		if errors.Is(err, backend.ErrLost) && !time.Now().Before(r.until()) {
			r.t.tooLate("a lease of another process ended before it was released")
		}
		r.t.lateOnTimeout(err, begun)
		r.t.fatalf("Release of a live lease in another process: %v", err)
	}
}

// mustBeLost fails unless the process reports that the lease of r is lost, and every request for the lease fails with
// ErrLost.
func (r *remote) mustBeLost(when string) {
	const prompt = 500 * time.Millisecond
	var lost bool
	var err error
	if !r.t.poll(prompt, func() bool {
		lost, err = r.process.Lost(r.t.ctx, r.owner)
		return lost || err != nil
	}) || err != nil {
		r.t.fatalf("%s: Lost is not closed (error %v)", when, err)
	}
	r.t.isLost(r.process.Renew(r.t.ctx, r.owner, r.t.short()), when+": Renew of a lost lease")
	r.t.isLost(r.process.Release(r.t.ctx, r.owner), when+": Release of a lost lease")
}

// takesOver acquires the key of a dead or frozen process, whose lease was granted or renewed at answered at the latest.
// It makes one attempt, when the store must no longer refuse the key.
func (t *trial) takesOver(r *remote, answered time.Time) *grant {
	t.outlast(t.lastRefusal(answered, r.ttl).Add(time.Millisecond))
	sent := time.Now()
	g, err := t.requestKey(t.ctx, t.a, r.key, t.long(), false)
	t.lateOnTimeout(err, sent)
	if err != nil {
		t.notInTime(t.rule, "the key of another process is still refused %v after its grant for %v, of which "+
			"Guarantees.MaxLate is %v: %v",
			sent.Sub(answered), r.ttl, t.g.MaxLate, err)
	}
	return g
}
