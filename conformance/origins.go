package conformance

import (
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

var originChecks = []Check{
	{
		Name: "LeasesAreAlike",
		Rule: "a lease is inspected, listed, kept, shortened, lost, broken and released alike, whatever came before: " +
			"granted at once or to a waiter, after a release, a Break or an expiry; renewed, alone or in a batch, resumed, " +
			"or not; shared or not",
		run: leasesAreAlike,
	},
}

// An origin is how a lease was granted.
type origin struct {
	how     string
	waits   bool                         // its owner waited for the end of the previous lease
	ends    func(t *trial, first *grant) // ends the previous lease; nil if there was none, or if it expires
	expires bool                         // the previous lease expires
	shared  bool
	readers bool // the previous lease was shared
}

func (t *trial) origins() []origin {
	release := func(t *trial, first *grant) { t.release(first) }
	origins := []origin{
		{how: "at once"},
		{how: "at once, after a release", ends: release},
		{how: "to a waiter, after a release", waits: true, ends: release},
		{how: "to a waiter, after an expiry", waits: true, expires: true},
	}
	if breaker, ok := t.b.(backend.Breaker); ok {
		broken := func(t *trial, first *grant) { t.mustBreak(breaker, first) }
		origins = append(origins, origin{how: "at once, after Break", ends: broken},
			origin{how: "to a waiter, after Break", waits: true, ends: broken})
	}
	if !t.g.Shared {
		return origins
	}
	for _, o := range origins {
		o.how, o.shared = "shared, "+o.how, true
		origins = append(origins, o)
	}
	return append(origins, origin{how: "at once, after a reader's release", ends: release, readers: true},
		origin{how: "to a waiter, after a reader's release", waits: true, ends: release, readers: true})
}

// mustBreak breaks g, which must be live.
func (t *trial) mustBreak(breaker backend.Breaker, g *grant) {
	if err := t.breaksLease(breaker, g); err != nil {
		t.fatalf("Break of a live lease: %v", err)
	}
}

// breakOrRelease ends g, which must be live: by a Break of client b, if the store has it, and otherwise by its release.
func (t *trial) breakOrRelease(b backend.Backend, g *grant) {
	if breaker, ok := b.(backend.Breaker); ok {
		t.mustBreak(breaker, g)
	} else {
		t.release(g)
	}
}

// lease acquires a new key by client b for ttl. The previous lease, if any, belonged to client before and was for
// firstTTL.
func (o origin) lease(t *trial, before, b backend.Backend, ttl, firstTTL time.Duration) *grant {
	r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: ttl, Wait: o.waits, Shared: o.shared}
	var first *grant
	if o.readers {
		first = t.read(before, r.Key, firstTTL)
	} else if o.expires || o.ends != nil {
		first = t.acquire(before, r.Key, firstTTL)
	}
	if !o.waits {
		if first != nil {
			t.renew(first, firstTTL)
			o.ends(t, first)
		}
		begun := time.Now()
		g, err := t.request(t.ctx, b, r)
		if t.lateOnTimeout(err, begun); err != nil {
			t.notGranted("Acquire of a free key", r.Key, err)
		}
		return g
	}
	w := t.begin(t.ctx, b, r)
	t.arrived(r.Key, 1)
	patience := t.handOff()
	if o.expires {
		patience += t.g.Round(firstTTL)
	} else {
		t.renew(first, firstTTL)
		o.ends(t, first)
	}
	return w.granted(t, patience, "a lease granted "+o.how)
}

// A change is a renewal or a Resume of a lease before it ends.
type change struct {
	what string
	// makes the change, for ttl, and returns the lease to use from then on
	make func(g *grant, ttl time.Duration) *grant
}

func (t *trial) changes() []change {
	changes := []change{{"", nil}}
	for _, way := range t.renewals() {
		changes = append(changes, change{way.what, func(g *grant, ttl time.Duration) *grant {
			t.renewBy(g, ttl, func() error { return way.renew(t.ctx, g, ttl) })
			return g
		}})
	}
	if _, ok := t.a.(backend.Resumer); ok {
		changes = append(changes,
			change{"Resume", func(g *grant, ttl time.Duration) *grant { return t.resume(t.other(g.client), g, ttl) }},
			change{"Renew and Resume", func(g *grant, ttl time.Duration) *grant {
				t.renew(g, ttl)
				return t.resume(g.client, g, ttl)
			}})
	}
	return changes
}

// other returns the other of the two clients.
func (t *trial) other(b backend.Backend) backend.Backend {
	if b == t.a {
		return t.b
	}
	return t.a
}

// A likeCase is one lease that leasesAreAlike tests.
type likeCase struct {
	origin
	change
	i     int
	shown backend.Holder // what Inspect returns of a lease in this mode
}

func (c likeCase) String() string {
	if c.make == nil {
		return "a lease granted " + c.how
	}
	return "a lease granted " + c.how + ", then " + c.what
}

func leasesAreAlike(t *trial) {
	var cases []likeCase
	shown := t.shownInModes()
	for _, o := range t.origins() {
		for _, c := range t.changes() {
			for range 2 { // once for each client
				cases = append(cases, likeCase{o, c, len(cases), shown[o.shared]})
			}
		}
	}
	rand.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
	const each, rounds = 5, 8
	if most := rounds * max(1, t.h.Many/each); len(cases) > most { // the store holds few leases: a random selection
		cases = cases[:most]
	}
	ends := []func(likeCase){t.keptAlike, t.expiresAlike, t.shortenedAlike, t.brokenAlike}
	if t.passing() > time.Second { // each lease gets only one ending, at random
		t.inChunks(len(cases), each, func(i int) { ends[i%len(ends)](cases[i]) })
		return
	}
	for _, end := range ends {
		t.inChunks(len(cases), each, func(i int) { end(cases[i]) })
	}
}

// shownInModes returns what Inspect returns of a shared lease (true) and of an exclusive one (false).
func (t *trial) shownInModes() map[bool]backend.Holder {
	shown := make(map[bool]backend.Holder)
	for _, shared := range []bool{false, true} {
		if shared && !t.g.Shared {
			continue
		}
		g := origin{shared: shared}.lease(t, t.b, t.a, t.long(), t.long()) // another client looks at it
		shown[shared] = t.inspect(g.key)
		t.release(g)
	}
	return shown
}

// granted returns the lease of c, granted for ttl and then changed to the TTL changed. The previous lease was for
// first. come starts waiters before the change.
func (c likeCase) granted(t *trial, ttl, changed, first time.Duration, come func(g *grant)) *grant {
	g := c.lease(t, t.client(c.i/2), t.client(c.i), ttl, first)
	come(g)
	if c.make == nil {
		return g
	}
	before := time.Now()
	g = c.make(g, changed)
	return &grant{Lease: g.Lease, client: g.client, key: g.key, owner: g.owner, ttl: changed, before: before,
		after: time.Now(), shared: g.shared}
}

// nobody starts no waiters.
func nobody(*grant) {}

// keptAlike keeps a renewed or resumed lease for longer than the first TTL of this lease and of the previous one.
// Others wait meanwhile. At the end the lease is resumed and released.
func (t *trial) keptAlike(c likeCase) {
	first := t.awaited()
	ttl := t.g.Round(first + t.short())
	if c.make == nil {
		ttl = t.long()
	}
	var leaves, w *waiting
	leave := func() {
		leaves.cancelAndFail(t)
		t.queueAtMostOf(w.key, 1)
	}
	early := c.i/2%2 == 0
	g := c.granted(t, ttl, t.long(), first, func(g *grant) {
		leaves = t.wait(t.client(c.i/2+1), g.key, t.long())
		t.arrived(g.key, 1)
		w = t.wait(t.client(c.i), g.key, t.long())
		if t.arrived(g.key, 2); early {
			leave()
		}
	})
	t.describedAlike(g, c)
	time.Sleep(time.Until(g.before.Add(first + t.short() + min(t.g.MaxLate, t.short()))))
	w.stillWaits(t, g, t.rule)
	t.heldBy(g)
	if g.shared {
		t.noReaderEnters(g.key, "while an exclusive request waits behind "+c.String())
	}
	t.describedAlike(g, c)
	if _, ok := t.a.(backend.Resumer); ok {
		g = t.resume(t.client(c.i+1), g, t.long())
	}
	if !early {
		leave()
	}
	t.release(g)
	next := w.granted(t, t.handOff(), "after the release of "+c.String())
	t.notBrokenAlike(g, "that was released")
	t.release(next)
}

// describedAlike fails unless Inspect and List show g.
func (t *trial) describedAlike(g *grant, c likeCase) {
	if t.describes(g, g.ttl); g.shared {
		t.holdersAre([]*grant{g}, c.String())
	}
	switch h := t.inspect(g.key); {
	case !g.live(time.Now()):
	case c.shown.Token != 0 && h.Token == 0:
		t.breaksText(inspectRule, "Inspect returns no token of %s", c)
	case c.shown.TTL != 0 && h.TTL == 0:
		t.breaksText(inspectRule, "Inspect returns no TTL of %s", c)
	}
	if lister, ok := t.b.(backend.Lister); ok && !t.list(lister, g.key)[g.key] && g.live(time.Now()) {
		t.breaksText(inspectRule, "List of its whole key does not return %s", c)
	}
}

// notBrokenAlike fails if g, which has ended, can be broken.
func (t *trial) notBrokenAlike(g *grant, how string) {
	if breaker, ok := t.b.(backend.Breaker); ok {
		t.breaksNothing(breaker, g.key, g.owner, "Break of a lease "+how)
	}
}

// expiresAlike lets a lease expire, after a previous lease with a longer TTL.
func (t *trial) expiresAlike(c likeCase) {
	first := 2 * t.long()
	if c.expires {
		first = t.awaited()
	}
	ttl, come := t.short(), nobody
	if c.i/2%2 == 0 { // a waiter comes and leaves
		ttl = t.awaited()
		come = func(g *grant) {
			w := t.wait(t.client(c.i/2+1), g.key, t.long())
			t.arrived(g.key, 1)
			w.cancelAndFail(t)
			t.queueAtMostOf(g.key, 0)
		}
	}
	g := c.granted(t, ttl, ttl, first, come)
	t.endsInTime(g)
	if !t.within(lostSoon, g.Lost()) {
		t.breaks(6, "Lost is open %v after the deadline of %s", time.Since(g.Deadline()), c)
	}
	t.notBrokenAlike(g, "that has expired")
}

// endsInTime fails unless the key of g becomes free when its TTL is over, and not before.
func (t *trial) endsInTime(g *grant) {
	time.Sleep(time.Until(g.Deadline()) - g.ttl/4) // a truncated TTL has mostly expired by then
	t.succeeds(t.b, g, g.ttl/32)
}

// shortenedAlike shortens a lease, by Renew or Resume, while another owner waits.
func (t *trial) shortenedAlike(c likeCase) {
	var w *waiting
	g := c.granted(t, 2*t.long(), 2*t.long(), t.awaited(), func(g *grant) {
		w = t.wait(t.client(c.i/2+1), g.key, t.long())
		t.arrived(g.key, 1)
	})
	if _, ok := t.a.(backend.Resumer); ok && c.i/2%2 == 0 {
		g = t.resume(t.client(c.i+1), g, t.short())
	} else {
		t.renew(g, t.short())
	}
	next := w.granted(t, t.g.Round(t.short())+t.handOff(), "after the expiry of "+c.String()+", then shortened")
	if early := g.Deadline().Sub(next.after); early > 0 {
		t.doubleGrant("a waiter was granted the key %v before the deadline of its holder, %s", early, c)
	}
	t.release(next)
}

// brokenAlike breaks a lease, with or without waiters.
func (t *trial) brokenAlike(c likeCase) {
	breaker, ok := t.b.(backend.Breaker)
	if !ok {
		return
	}
	const waiters = 2
	var waits []*waiting
	g := c.granted(t, t.long(), t.long(), t.awaited(), func(g *grant) {
		for n := range waiters * (c.i / 2 % 2) {
			waits = append(waits, t.wait(t.client(c.i+n), g.key, t.long()))
			t.arrived(g.key, n+1)
		}
	})
	t.mustBreak(breaker, g)
	if len(waits) == 0 {
		if _, ok := t.a.(backend.Resumer); ok {
			r := backend.Request{Key: g.key, Owner: g.owner, TTL: t.long(), Shared: g.shared}
			t.notResumed(t.a, r, "Resume of a lease that was broken")
		}
		t.free(t.b, g.key, "after Break of "+c.String())
	}
	for len(waits) > 0 {
		first := t.firstOf(waits, t.handOff(), "after Break of "+c.String())
		t.isLost(g.Renew(t.ctx, t.long()), "Renew of a lease that was broken")
		t.release(waits[first].grant)
		waits = append(waits[:first:first], waits[first+1:]...)
	}
	t.isLost(g.Release(t.ctx), "Release of a lease that was broken")
	t.staysFree(g.key, "after requests of a lease that was broken")
}
