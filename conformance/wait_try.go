package conformance

import (
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

var tryChecks = []Check{
	{
		Name: "AttemptDoesNotWait",
		Rule: "Backend.Acquire: if Request.Wait is false, it makes one attempt, shared or not: a busy key is ErrHeld at " +
			"once, and not after further attempts",
		run: attemptDoesNotWait,
	},
}

// attemptDoesNotWait measures how long a refusal takes, in comparison with the grant of a free key. A machine that is
// too busy gets a second and a third chance.
func attemptDoesNotWait(t *trial) {
	const (
		rounds, chances = 7, 3
		idle            = 50 * time.Millisecond
		factor          = 4 // how many times longer than a grant a refusal may take
	)
	defer t.watchStore()()
	for chance := 1; ; chance++ {
		var late, usual time.Duration
		for _, held := range t.modes() {
			for _, shared := range t.modes() {
				took, granted := t.refusalTime(held, shared, rounds)
				if took > idle+factor*granted && took > late {
					late, usual = took, granted
				}
			}
		}
		if late == 0 {
			return
		}
		if chance == chances {
			t.notInTime(t.rule, "an attempt that does not wait is refused after %v, and a free key is granted after %v "+
				"(medians of %d)", late.Round(time.Millisecond), usual.Round(time.Millisecond), rounds)
		}
	}
}

// refusalTime returns how long the refusal of an attempt takes, shared or not, and the grant of a free key, as medians.
// held is the mode of the lease that holds the key. A reader is refused beside a reader because a writer waits.
func (t *trial) refusalTime(held, shared bool, rounds int) (refused, granted time.Duration) {
	get := t.acquire
	if held {
		get = t.read
	}
	g := get(t.a, t.newKey(), t.long())
	var w *waiting
	if held && shared {
		w = t.wait(t.b, g.key, t.long())
		t.arrived(g.key, 1)
	}
	var refusals, grants []time.Duration
	for i := range rounds {
		free := t.acquire(t.client(i), t.newKey(), t.long())
		grants = append(grants, free.after.Sub(free.before))
		t.release(free)
		r := backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long(), Shared: shared}
		begun := time.Now()
		other, err := t.request(t.ctx, t.client(i), r)
		refusals = append(refusals, time.Since(begun))
		switch {
		case other != nil && held && shared: // a store may forget a writer whose client stood still
			t.pulse.catchUp()
			t.notInTime(t.ruleText(9), "a shared attempt was granted the key, which a writer waits for")
		case other != nil:
			t.doubleGrant("a second owner was granted the key%s", inMode(shared))
		case !t.heldOrNil(err):
			t.lateOnTimeout(err, begun)
			t.breaksText(refuseRule, "Acquire of a held key: %v, want ErrHeld", err)
		}
	}
	if w != nil {
		w.cancelAndFail(t)
	}
	t.release(g)
	slices.Sort(refusals)
	slices.Sort(grants)
	return refusals[rounds/2], grants[rounds/2]
}
