package conformance

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

// lostNeverAfterRelease releases leases that were granted and renewed in many ways, and leases that are being renewed.
// It then waits until each lease would have ended.
func lostNeverAfterRelease(t *trial) {
	var cases []func()
	for _, o := range t.origins() {
		if o.expires { // the previous lease takes long to end
			continue
		}
		for _, c := range t.changes() {
			i := len(cases)
			cases = append(cases, func() { t.releasesChanged(likeCase{origin: o, change: c, i: i}) })
		}
	}
	const meetings = 8
	moment := 2 * t.typical()
	for i := range meetings * len(t.renewals()) {
		cases = append(cases, func() { t.releasesInRenewal(t.renewals()[i/meetings], moment) })
	}
	rand.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	const each, rounds = 3, 2
	if most := rounds * max(1, t.h.Many/each); len(cases) > most { // the store holds few leases: a random selection
		cases = cases[:most]
	}
	t.inChunks(len(cases), each, func(i int) { cases[i]() })
	if t.h.Linked != nil {
		t.releasesBeforeAnswer()
	}
}

// releasesChanged releases the lease of c.
func (t *trial) releasesChanged(c likeCase) {
	ttl := t.passing()
	if c.make != nil {
		ttl = t.long()
	}
	g := c.granted(t, ttl, t.passing(), t.long(), nobody)
	deadline := g.Deadline()
	t.losesNothing(g, c.String(), func() time.Time { t.release(g); return deadline })
}

// releasesInRenewal releases a lease at about the moment at which way renews it for a short time.
func (t *trial) releasesInRenewal(way renewal, moment time.Duration) {
	g := t.acquire(t.a, t.newKey(), t.long())
	t.losesNothing(g, "a lease that "+way.what+" was about to renew", func() time.Time {
		begun := time.Now()
		t.together(2, func(i int) {
			time.Sleep(rand.N(moment)) // sleeps: the two meet at another moment each time
			if i == 0 {
				_ = way.renew(t.ctx, g, t.passing()) // other checks test the result
				return
			}
			t.releaseShortened(g, begun, t.passing())
		})
		return time.Now().Add(t.g.Round(t.passing()))
	})
}

// releasesBeforeAnswer releases leases while the answers to their renewals are on their way.
func (t *trial) releasesBeforeAnswer() {
	const delay = 60 * time.Millisecond
	ways := t.renewals()
	c, link := t.linked()
	t.usable(c)
	grants := make([]*grant, min(2*len(ways), t.h.Many))
	for i := range grants {
		grants[i] = t.acquire(c, t.newKey(), t.long())
	}
	link.Delay(FromStore, delay)
	t.together(len(grants), func(i int) {
		g, way := grants[i], ways[i%len(ways)]
		t.losesNothing(g, "a lease whose "+way.what+" was not answered yet", func() time.Time {
			begun := time.Now()
			renewal := t.call(func() error { return way.renew(t.ctx, g, t.passing()) })
			time.Sleep(delay / 3) // sleeps: the renewal is sent first
			t.releaseShortened(g, begun, t.passing())
			_ = renewal.ends(t, recovery, way.what+" beside a release") // other checks test the result
			return time.Now().Add(t.g.Round(t.passing()))
		})
	})
}

// releaseShortened releases g, which a renewal for ttl that was sent after begun may have shortened.
func (t *trial) releaseShortened(g *grant, begun time.Time, ttl time.Duration) {
	err := g.Release(t.ctx)
	t.lateOnTimeout(err, begun)
	if errors.Is(err, backend.ErrLost) && !time.Now().Before(backend.Deadline(begun, ttl)) {
		t.lateFor(ttlRule, false, "a lease that a renewal had shortened ended before it was released")
	}
	if err != nil {
		t.breaksText(releaseRule, "Release of a live lease: %v", err)
	}
}

// losesNothing calls release, which releases g and returns when the lease would have ended. It fails if Lost closes or
// OnLost calls back by then, or soon after. of describes the lease.
func (t *trial) losesNothing(g *grant, of string, release func() (end time.Time)) {
	var before, after atomic.Int32
	notifier, notifies := g.Lease.(backend.LossNotifier)
	if notifies {
		notifier.OnLost(func() { before.Add(1) })
	}
	lost := g.Lost()
	end := release()
	if notifies {
		notifier.OnLost(func() { after.Add(1) })
	}
	time.Sleep(time.Until(end)) // sleeps: a timer of the lease may close Lost then
	if t.within(t.short()/2, lost) || g.gone() {
		t.fatalf("Lost closed after the release of %s", of)
	}
	if before.Load() > 0 {
		t.fatalf("OnLost called back after the release of %s", of)
	}
	if after.Load() > 0 {
		t.fatalf("OnLost called a function back that was registered after the release of %s", of)
	}
}
