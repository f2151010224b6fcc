package conformance

import (
	"errors"
	"regexp"
	"time"

	"github.com/anylock/lock/backend"
)

var disconnectedChecks = []Check{
	{
		Name: "DisconnectedHolderKeepsLease",
		Rule: "rule 1: a holder that was disconnected for seconds, visibly or not, keeps its lease until its deadline, and " +
			"can renew and release it " +
			"afterwards, unless Guarantees.EarlyLoss mentions connections or sessions",
		Needs: []Need{needsLinked},
		// If a client cannot have leases for more, there is one disconnection at a time.
		lastsInBubble: time.Duration(len(disconnections)) * disconnectedLong,
		run:           disconnectedHolderKeepsLease,
	},
	{
		Name: "SilentWaiterOutlivesOutage",
		Rule: "rule 9: a waiter whose path was silent for seconds still waits, and gets the key when the path works again " +
			"and the key is " +
			"released",
		Needs: []Need{needsLinked},
		run:   silentWaiterOutlivesOutage,
	},
	{
		Name: "EachWaiterOutlivesOutage",
		Rule: "rule 9: all waiters of a client outlive outages of its connections, for however long they have waited, and " +
			"each gets its key when that is released",
		Needs: []Need{needsLinked},
		run:   eachWaiterOutlivesOutage,
	},
}

// A disconnection is a way in which a client loses contact with the store, until Link.Heal.
type disconnection struct {
	what  string
	begin func(Link)
}

// silences are the disconnections that close no connection.
var silences = []disconnection{
	{"behind a path that lost everything", func(l Link) { partition(l, ToStore, FromStore) }},
	{"behind a path that lost its requests", func(l Link) { partition(l, ToStore) }},
	{"behind a path that lost the answers", func(l Link) { partition(l, FromStore) }},
	{"behind a path that held everything back", func(l Link) { l.Hold(ToStore); l.Hold(FromStore) }},
}

// disconnections are all ways to lose contact.
var disconnections = append([]disconnection{
	{"whose connections were closed", Link.Cut},
	{"whose connections were closed and new ones refused", Link.Refuse},
}, silences...)

var namesConnections = regexp.MustCompile(`(?i)connection|session`)

// mayEndLeases reports whether the store may end leases because a connection or session ends.
func (t *trial) mayEndLeases() bool { return namesConnections.MatchString(t.g.EarlyLoss) }

// disconnectedLong is longer than sessions of up to a minute outlive their connection.
const disconnectedLong = 70 * time.Second

// disconnectedFor returns how long a holder is disconnected. That is longer than most sessions outlive their
// connection, and shorter than the store keeps leases without contact (Guarantees.MaxSilence).
func (t *trial) disconnectedFor() time.Duration {
	usual := 12 * time.Second
	switch {
	case bubbleName() != "": // in fake time, waiting costs nothing
		usual = min(disconnectedLong, t.long()*2/3)
	case t.shortMode:
		usual = 6 * time.Second
	}
	if t.g.MaxSilence > 0 {
		return min(usual, t.g.MaxSilence/3)
	}
	return usual
}

func disconnectedHolderKeepsLease(t *trial) {
	t.inChunks(len(disconnections), 3, func(i int) { // c, which has four leases, is a client of its own
		d := disconnections[i]
		c, link := t.linked()
		t.usable(c)
		held := []*grant{t.acquire(c, t.newKey(), t.long()), t.grantedAfterWait(c)}
		if t.g.Shared {
			held = append(held, t.read(c, t.newKey(), t.long()))
		}
		brief := t.acquire(c, t.newKey(), t.short()) // expires while its client is disconnected
		seen := t.acquire(t.a, t.newKey(), t.long())
		t.inspectBy(c, seen.key)
		end := time.Now().Add(t.disconnectedFor())
		d.begin(link)
		t.release(seen)
		next := t.acquire(t.b, seen.key, t.long())
		for time.Now().Before(end) && !t.mayEndLeases() {
			for _, g := range held {
				t.refused(t.b, g)
			}
			time.Sleep(slow)
		}
		time.Sleep(time.Until(end))
		link.Heal()
		t.usable(c)
		if h := t.inspectBy(c, next.key); h.Owner != next.owner && next.live(time.Now()) {
			t.breaksText(inspectRule, "Inspect by a client %s says that %q holds a key, want %q", d.what, h.Owner, next.owner)
		}
		t.release(next)
		t.outlast(t.lastRefusal(brief.after, brief.ttl))
		t.free(t.b, brief.key, "after the TTL of a lease whose client, "+d.what+", has connected again")
		for _, g := range held {
			t.outlivedOutage(g, d.what)
		}
	})
}

// grantedAfterWait returns a lease for which c has waited.
func (t *trial) grantedAfterWait(c backend.Backend) *grant {
	first := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(c, first.key, t.long())
	t.confirmQueued(first.key, 1)
	t.release(first)
	return w.granted(t, t.handOff(), "after release")
}

// outlivedOutage fails unless g is held, and its client, which has reconnected, can renew and release g.
func (t *trial) outlivedOutage(g *grant, what string) {
	var err error
	renewed := func() bool {
		err = g.Renew(t.ctx, t.long())
		return err == nil || g.gone()
	}
	ok := t.poll(recovery, renewed)
	switch {
	case g.gone() && t.mayEndLeases():
		return
	case g.gone():
		t.fatalf("the lease of a holder %s is lost %v before its deadline: Renew: %v", what, time.Until(g.Deadline()), err)
	case !ok:
		t.fatalf("Renew by a holder %s, %v after that ended: %v", what, recovery, err)
	}
	t.refusedFor(t.b, g, lateBy) // the store may end the lease in the background
	t.heldBy(g)
	t.describes(g, t.long())
	if err := g.Release(t.ctx); errors.Is(err, backend.ErrLost) {
		t.fatalf("Release by a holder %s, of a live lease: %v", what, err)
	}
	t.becomesFree(t.b, g.key, recovery, "after a release by a holder "+what)
}

func silentWaiterOutlivesOutage(t *trial) {
	const outage = 4 * time.Second
	modes := t.modes()
	t.inChunks(len(silences)*len(modes), 1, func(i int) {
		d := silences[i/len(modes)]
		c, link := t.linked()
		t.usable(c)
		g := t.acquire(t.a, t.newKey(), t.long())
		w := t.begin(t.ctx, c, backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
			Shared: modes[i%len(modes)]})
		t.confirmQueued(g.key, 1)
		d.begin(link)
		if t.within(outage, w.done) {
			w.stillWaits(t, g, t.rule)
		}
		link.Heal()
		t.usable(c)
		w.stillWaits(t, g, t.rule)
		t.refused(t.b, g)
		t.release(g)
		if most := recovery + t.g.MaxLate; !t.within(most, w.done) {
			t.fatalf("a waiter %s has not been granted the key within %v after that ended and the key was released", d.what,
				most)
		}
		next := w.granted(t, 0, "after release")
		t.refused(t.b, next)
		_ = next.Release(t.ctx)
		t.becomesFree(t.b, g.key, recovery, "after the release by a waiter "+d.what)
	})
}

// eachWaiterOutlivesOutage has a client wait for several keys. Either its connections break at once, or they are
// refused for seconds after a longer wait, or refused for seconds twice.
func eachWaiterOutlivesOutage(t *trial) {
	const keys, before, outage = 4, 4 * time.Second, 4 * time.Second
	t.inChunks(3, keys, func(i int) {
		c, link := t.linked()
		t.usable(c)
		var held []*grant
		var waits []*waiting
		for n := range keys {
			g := t.acquire(t.client(n), t.newKey(), t.long())
			held, waits = append(held, g), append(waits, t.begin(t.ctx, c, backend.Request{Key: g.key,
				Owner: backend.NewOwner(), TTL: t.long(), Wait: true, Shared: t.g.Shared && n%2 == 1}))
			t.confirmQueued(g.key, 1)
		}
		if i == 1 {
			time.Sleep(before)
		}
		for range i {
			link.Refuse()
			time.Sleep(outage)
			link.Heal()
			t.usable(c)
			for _, g := range held {
				t.queuesAgain(g.key, 1)
			}
		}
		if i == 0 {
			link.Cut()
		}
		t.usable(c)
		for n, g := range held {
			t.queuesAgain(g.key, 1)
			waits[n].stillWaits(t, g, t.rule)
			t.release(g)
		}
		for _, w := range waits {
			next := w.granted(t, recovery+t.g.MaxLate, "after an outage of its client's connections, and release")
			t.refused(t.b, next)
			_ = next.Release(t.ctx)
		}
	})
}
