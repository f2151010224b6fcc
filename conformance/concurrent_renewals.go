package conformance

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

var concurrentRenewalChecks = []Check{
	{
		Name: "ConcurrentRenewalsAgree",
		Rule: "rule 1: when two Renews of a lease meet, one of them shorter, the lease ends for its holder before the " +
			"store grants the key again, whichever comes last",
		run: concurrentRenewalsAgree,
	},
}

// concurrentRenewalsAgree makes two renewals of a lease overlap: at random moments, and while no reply arrives.
func concurrentRenewalsAgree(t *trial) {
	const keys = 16
	typical := t.typical()
	t.inChunks(keys, 2, func(i int) {
		g := t.acquire(t.a, t.newKey(), t.long())
		t.renewTwice(g, i, func() { time.Sleep(rand.N(2 * typical)) }, func() {})
		t.shortenedLate(g, t.short(), "whose two renewals met")
	})
	if t.h.Linked == nil {
		return
	}
	const (
		rounds = 6
		held   = 50 * time.Millisecond
	)
	c, link := t.linked() // one after the other, because servers limit the connections per host
	t.usable(c)
	grants := make([]*grant, min(rounds, max(1, t.h.Many/2)))
	for i := range grants {
		grants[i] = t.acquire(c, t.newKey(), t.long())
		link.Hold(FromStore)
		t.renewTwice(grants[i], i, func() { time.Sleep(held) }, func() { time.Sleep(held); link.Heal() })
		t.usable(c)
	}
	t.together(len(grants), func(i int) { t.shortenedLate(grants[i], t.short(), "whose two renewals met") })
}

// renewTwice makes two overlapping renewals of g, for a short TTL and a long TTL. i decides which of them begins
// second. It calls between before the second renewal, and it calls then while both are under way.
func (t *trial) renewTwice(g *grant, i int, between, then func()) {
	begun, ways := time.Now(), t.renewals()
	t.together(3, func(j int) {
		if j > 0 {
			between()
		}
		if j == 2 {
			then()
			return
		}
		way := ways[(i/2+j*(i/4))%len(ways)]
		err := way.renew(t.ctx, g, []time.Duration{t.long(), t.short()}[(i+j)%2])
		if errors.Is(err, backend.ErrUnavailable) && way.what != ways[0].what {
			return // a batch may skip a lease that is being renewed
		}
		t.lateOnTimeout(err, begun)
		switch {
		case err == nil, t.excused(g, err):
		case errors.Is(err, backend.ErrLost) && !time.Now().Before(backend.Deadline(begun, t.short())):
			t.tooLate("a lease ended before both of its renewals did")
		case errors.Is(err, backend.ErrUnavailable) && time.Since(begun) > slow:
			t.tooLate("a renewal that met another, after %v: %v", time.Since(begun), err)
		default:
			t.breaksText(renewRule, "Renew of a live lease, beside another: %v", err)
		}
	})
}
