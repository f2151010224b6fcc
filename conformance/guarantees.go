package conformance

import (
	"time"

	"github.com/anylock/lock/backend"
)

var guaranteeChecks = []Check{
	{
		Name: "GuaranteesAreConstant",
		Rule: "Backend.Guarantees never changes: it is the same for every client, after use and after Close",
		run:  guaranteesAreConstant,
	},
	{
		Name: "GuaranteesAreConsistent",
		Rule: "every field of Guarantees has a meaning, and none contradicts another",
		run:  guaranteesAreConsistent,
	},
}

func guaranteesAreConstant(t *trial) {
	same := func(b backend.Backend, when string) {
		if g := b.Guarantees(); g != t.g {
			t.fatalf("%s: Guarantees are %+v, were %+v", when, g, t.g)
		}
	}
	same(t.a, "first client")
	same(t.b, "second client")
	t.release(t.acquire(t.a, t.key, t.short()))
	same(t.a, "after use")
	c := t.dial()
	if err := c.Close(); err != nil {
		t.fatalf("Close: %v", err)
	}
	same(c, "after Close")
}

func guaranteesAreConsistent(t *trial) {
	g := t.g
	const (
		shortTTL = time.Minute // package lock renews a lease several times in its TTL
		lateness = time.Minute
	)
	for _, wrong := range []struct {
		is   bool
		what string
	}{
		{g.MinTTL < 0 || g.MinTTL > shortTTL, "MinTTL is not between 0 and a minute"},
		{g.Granularity < 0 || g.Granularity > shortTTL, "Granularity is not between 0 and a minute"},
		{g.MaxTTL < 0 || g.MaxTTL > backend.MaxTTL, "MaxTTL is not between 0 and the contract's"},
		{g.MaxTTL > 0 && g.MaxTTL < 2*g.Round(1), "MaxTTL is less than twice the shortest TTL"},
		{g.MaxSilence < 0 || g.MaxSilence > 0 && g.MaxSilence < g.Round(1), "MaxSilence is less than the shortest TTL"},
		{g.MaxLeases < 0, "MaxLeases is negative"},
		{g.MaxLate < 0 || g.MaxLate > lateness, "MaxLate is not between 0 and a minute"},
		{g.EnforcedBy == "", "EnforcedBy is empty"},
		{g.Fencing < backend.FencingNone || g.Fencing > backend.FencingLoss, "Fencing is unknown"},
		{g.Wake < backend.WakePoll || g.Wake > backend.WakePush, "Wake is unknown"},
		{g.Consistency < backend.BestEffort || g.Consistency > backend.Linearizable, "Consistency is unknown"},
		{g.Reach < backend.ReachProcess || g.Reach > backend.ReachNetwork, "Reach is unknown"},
		{g.Consistency == backend.Linearizable && g.EarlyLoss != "",
			"Consistency is linearizable, yet EarlyLoss says how a live lease is dropped"},
	} {
		if wrong.is {
			t.errorf("%s: %+v", wrong.what, g)
		}
	}
}
