package conformance

import (
	"time"

	"github.com/anylock/lock/backend"
)

var restartDeadlineChecks = []Check{
	{
		Name: "RestartKeepsDeadlines",
		Rule: "rules 1, 3 and 9: a restart of the store changes no deadline: not that of a lease that is about to end, " +
			"nor that of a " +
			"disconnected holder. The first waiter behind a dead or disconnected holder is granted the key by " +
			"Guarantees.MaxLate, without " +
			"any other request for the key",
		Needs: []Need{needsRestart, needsLinked},
		alone: true,
		run:   restartKeepsDeadlines,
	},
	{
		Name: "RestartSparesDisconnectedHolder",
		Rule: "rule 1: a holder that is disconnected while the store restarts can renew and release its lease once it has " +
			"reconnected, " +
			"unless Guarantees.EarlyLoss says that the lease may be lost",
		Needs: []Need{needsRestart, needsLinked, needsNoEarlyLoss},
		alone: true,
		run:   restartSparesDisconnectedHolder,
	},
}

// restartTime restarts the store and returns how long it was unavailable.
func (t *trial) restartTime() time.Duration { return t.restartsWith(nil) }

func restartKeepsDeadlines(t *trial) {
	const (
		apart     = 150 * time.Millisecond
		remaining = 450 * time.Millisecond // of the last brief lease, when the store restarts
		brief     = 3
	)
	ttl := t.g.Round(t.passing() + brief*apart)
	outlives := t.g.Round(ttl + time.Second + 2*t.restartTime())
	away, link := t.linked()
	t.usable(away)
	watched := []*deadLease{
		t.diesNow(t.a, outlives, "a dead holder"), t.diesNow(away, outlives, "a disconnected holder"),
	}
	var waits []*waiting
	for _, d := range watched {
		waits = append(waits, t.wait(t.b, d.grant.key, t.long()))
		t.confirmQueued(d.grant.key, 1)
	}
	polled := []*deadLease{t.diesNow(away, outlives, "a disconnected holder without waiters")}
	for range brief {
		polled = append(polled, t.diesNow(t.a, ttl, "a lease that was about to end"))
		time.Sleep(apart)
	}
	link.Refuse()
	if t.mayEndLeases() {
		for _, d := range append(watched, polled[0]) {
			d.deadline = time.Time{}
		}
	}
	time.Sleep(time.Until(polled[brief].grant.Deadline().Add(-remaining)))
	t.h.Restart()
	t.becomesFreeAfterOutage(t.b, t.newKey())
	restarted := time.Now()
	for _, d := range watched {
		t.keepsTTL(d, restarted)
	}
	t.together(len(polled)+len(waits), func(i int) {
		if i < len(polled) {
			t.endsAfterRestart(polled[i], restarted)
			return
		}
		t.wakesAfterRestart(waits[i-len(polled)], watched[i-len(polled)], restarted)
	})
}

// keepsTTL fails if Inspect returns a longer TTL of d, whose holder makes no requests, than the restart may have left.
func (t *trial) keepsTTL(d *deadLease, restarted time.Time) {
	most := time.Until(t.lastAfterRestart(d, restarted)) + t.g.Granularity
	if h := t.inspect(d.grant.key); h.Owner == d.grant.owner && h.TTL > most {
		t.breaks(3, "after a restart, Inspect returns a TTL of %v, of %s, whose lease may last for another %v", h.TTL, d.what,
			most)
	}
}

// diesNow returns a new lease of client c, whose holder makes no further requests.
func (t *trial) diesNow(c backend.Backend, ttl time.Duration, what string) *deadLease {
	g := t.acquire(c, t.newKey(), ttl)
	return t.dies(what, g, g.after, ttl)
}

// wakesAfterRestart fails unless w, the only waiter behind d, is granted the key in time and not early.
func (t *trial) wakesAfterRestart(w *waiting, d *deadLease, restarted time.Time) {
	patience := max(0, time.Until(t.lastAfterRestart(d, restarted))) + t.handOff()
	next := w.granted(t, patience, "after a restart of the store and the expiry of the lease of "+d.what)
	if t.g.EarlyLoss == "" && next.after.Before(d.deadline) {
		t.doubleGrant("after a restart, a waiter was granted the key of %s %v before its deadline", d.what,
			d.deadline.Sub(next.after))
	}
	if t.mayEndLeases() && next.after.Before(restarted) {
		_ = next.Release(t.ctx) // the restart may have ended this lease too
		return
	}
	t.release(next)
}

func restartSparesDisconnectedHolder(t *trial) {
	c, link := t.linked()
	t.usable(c)
	held := []*grant{t.acquire(c, t.newKey(), t.long()), t.grantedAfterWait(c)}
	link.Refuse()
	end := held[0].Deadline()
	t.h.Restart()
	t.becomesFreeAfterOutage(t.b, t.newKey())
	t.restartedBefore(end)
	for _, g := range held {
		t.refused(t.b, g)
	}
	link.Heal()
	t.usable(c)
	for _, g := range held {
		t.outlivedOutage(g, "that was disconnected while the store restarted")
	}
}
