package conformance

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// agedChecks are of waits, leases and keys that are older than half a minute. Other checks last for seconds.
var agedChecks = []Check{
	{
		Name: "AgedThingsStand",
		Rule: "rules 3, 7 and 9: age ends nothing: after more than 30 seconds, and in fake time after minutes, an hour and " +
			"a day, a waiter still waits, in its place, and learns of a release; a lease of a longer TTL is held, and so is " +
			"one that is renewed, but not one of a shorter TTL; the tokens of a key that was free for as long still " +
			"increase; a client that made no request for as long has its lease, and is served",
		lasts:         agedFor + soon,
		lastsInBubble: agedDay + soon,
		run:           agedThingsStand,
	},
}

const (
	// agedFor is longer than the usual time limits of 10, 20 and 30 seconds: of a request, of a connection, of a session.
	agedFor = 35 * time.Second
	// The others are longer than those of a minute, 90 seconds, five minutes, an hour and a day. Only fake time passes as
	// fast. A waiter that polls costs processor time even then, so none gets older than an hour.
	agedMinute, aged90s, agedMinutes = 70 * time.Second, 95 * time.Second, 310 * time.Second
	agedHour, agedDay                = 61 * time.Minute, 25 * time.Hour
)

// upTo returns those of the given ages, in order, that fake time reaches and that leases of the store reach, and
// agedFor.
func (t *trial) upTo(ages ...time.Duration) []time.Duration {
	all := []time.Duration{agedFor}
	for _, age := range ages {
		if bubbleName() != "" && t.agedTTL(age) <= t.longest() {
			all = append(all, age)
		}
	}
	return all
}

// agedTTL returns the TTL of a lease that somebody can still hand off at the given age.
func (t *trial) agedTTL(age time.Duration) time.Duration {
	lives := age + t.handOff()
	return t.g.Round(max(t.long(), lives+lives/50)) // twice the margin
}

// An agedPart is a part of agedThingsStand. Each client has up to room leases, waits or attempts of it at once.
type agedPart struct {
	room int
	run  func()
}

func agedThingsStand(t *trial) {
	const day = 24 * time.Hour
	if t.shortMode && bubbleName() == "" {
		t.skipf("it takes %v of real time (Options.Short)", agedFor)
	}
	if ttl := t.agedTTL(agedFor); ttl > t.longest() {
		t.skipf("the store grants no lease of %v (Guarantees.MaxTTL)", ttl)
	}
	minutes, hour := t.upTo(agedMinute, aged90s, agedMinutes), slices.Max(t.upTo(agedHour))
	oldest := slices.Max(t.upTo(agedHour, agedDay))
	parts := []agedPart{
		{2, func() { t.agedQueue(agedFor) }},
		{1, func() { t.agedRenewals(oldest, t.acquire, false) }},
		{1, func() { t.agedLease(oldest) }},
		{1, func() { t.agedTokens(hour) }},
		{1, func() { t.agedClient(oldest) }},
		{1, func() { t.agedWait(hour, 3600*day) }},
		{1, func() { t.agedWait(20*time.Second, 30*day) }},
		{1, func() { t.agedWait(12*time.Second, time.Hour) }},
	}
	for _, age := range minutes[1:] {
		parts = append(parts, agedPart{2, func() { t.agedQueue(age) }})
	}
	if oldest > hour {
		parts = append(parts, agedPart{1, func() { t.agedTokens(oldest) }})
	}
	if t.g.Shared {
		parts = append(parts, agedPart{3, func() { t.agedReader(slices.Max(minutes)) }},
			agedPart{1, func() { t.agedRenewals(oldest, t.read, false) }},
			agedPart{2, func() { t.agedRenewals(slices.Max(minutes), t.read, true) }})
	}
	parts = append(parts, agedPart{3, t.agedExpiries}) // other checks let leases end too
	room := t.h.Many
	for i, p := range parts {
		if room -= p.room; room < 0 && i > 0 {
			parts = parts[:i]
			t.notef("%d parts only, for want of room (Harness.Many)", i)
			break
		}
	}
	t.together(len(parts), func(i int) { parts[i].run() })
}

// passesUntil sleeps until at. It ends the calling goroutine if the check ends before, up to a hundredth of the time
// later.
func (t *trial) passesUntil(at time.Time) {
	begun := time.Now()
	for left := time.Until(at); left > 0; left = time.Until(at) {
		if t.ended() || t.ctx.Err() != nil {
			runtime.Goexit()
		}
		time.Sleep(min(left, max(10*tick, time.Since(begun)/100)))
	}
}

// agedQueue lets waiters wait for a key, until the first has waited for age. The others come at times at which a waiter
// that goes to the end of the queue every 10, 15, 20, 25, 30, 60, 90 or 300 seconds is behind one of them, at one of
// the ages.
func (t *trial) agedQueue(age time.Duration) {
	g := t.acquire(t.a, t.newKey(), t.agedTTL(age))
	begun := time.Now()
	l := t.newLine(g.key)
	l.after = fmt.Sprintf(", after waits of up to %v", age)
	for i, at := range []time.Duration{0, 6 * time.Second, 18 * time.Second} {
		t.passesUntil(begun.Add(at))
		l.join(t.client(i+1), t.long(), false)
	}
	t.passesUntil(begun.Add(age))
	for _, w := range l.waits {
		w.stillWaits(t, g, t.rule)
	}
	t.release(g)
	if t.g.FIFO {
		l.inOrder(2 * t.handOff())
	} else {
		l.drained(2 * t.handOff())
	}
}

// agedWait lets one waiter wait for age. Its context has a deadline that is limit away.
func (t *trial) agedWait(age, limit time.Duration) {
	g := t.acquire(t.a, t.newKey(), t.agedTTL(age))
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	w := t.waitWith(ctx, t.b, g.key, t.long())
	t.passesUntil(time.Now().Add(age))
	w.stillWaits(t, g, t.rule)
	t.release(g)
	when := fmt.Sprintf("after a release, and a wait of %v with a context of %v", age, limit)
	t.release(w.granted(t, t.handOff(), when))
}

// agedLease lets a lease stand that is neither renewed nor inspected.
func (t *trial) agedLease(age time.Duration) {
	g := t.acquire(t.a, t.newKey(), t.agedTTL(age))
	t.passesUntil(g.after.Add(age))
	t.refused(t.b, g)
	if g.gone() && g.live(time.Now()) {
		t.fatalf("Lost is closed before the deadline of a lease of %v", g.ttl)
	}
	t.release(g)
}

// agedExpiries lets leases end whose TTL is longer than the heartbeat of a client. One of their keys is waited for.
func (t *trial) agedExpiries() {
	ttl := t.g.Round(min(20*time.Second, t.longest()))
	tried, waited := t.acquire(t.a, t.newKey(), ttl), t.acquire(t.a, t.newKey(), ttl)
	renewed := t.acquire(t.a, t.newKey(), t.long())
	renewed.ttl, renewed.before = ttl, time.Now()
	t.renew(renewed, ttl)
	renewed.after = time.Now()
	w := t.wait(t.b, waited.key, t.long())
	for _, g := range []*grant{tried, renewed} {
		t.passesUntil(g.Deadline().Add(-time.Second))
		t.losesOnTime(g)
		t.succeeds(t.b, g, tick)
	}
	bound := time.Until(t.lastRefusal(waited.after, ttl)) + t.handOff()
	next := w.granted(t, bound, fmt.Sprintf("after the end of a lease of %v", ttl))
	if early := waited.Deadline().Sub(next.after); early > 0 {
		t.doubleGrant("a waiter was granted the key %v before the holder's deadline", early)
	}
	t.release(next)
}

// agedReader lets a writer wait for a reader, and another reader behind the writer. For age, nobody makes a request.
func (t *trial) agedReader(age time.Duration) {
	reader := t.read(t.a, t.newKey(), t.agedTTL(age))
	w := t.wait(t.b, reader.key, t.long())
	t.arrived(reader.key, 1)
	behind := t.waitToRead(t.a, reader.key, t.long())
	t.arrived(reader.key, 2)
	t.passesUntil(time.Now().Add(age))
	when := fmt.Sprintf("behind a writer that has waited for %v", age)
	t.noReaderEnters(reader.key, when)
	for _, w := range []*waiting{w, behind} {
		w.stillWaits(t, reader, t.rule)
	}
	t.refused(t.b, reader)
	t.release(reader)
	next := w.granted(t, t.handOff(), "after the release of a reader, and a long wait")
	behind.stillWaits(t, next, t.rule)
	t.release(next)
	t.release(behind.granted(t, t.handOff(), "after the release of the writer before it, and a long wait"))
}

// agedRenewals renews a lease all the time. If waited is set, a writer waits meanwhile.
func (t *trial) agedRenewals(age time.Duration, get getter, waited bool) {
	const often = 8 // renewals in a TTL
	ttl := t.g.Round(min(max(10*time.Second*time.Duration(t.stretch), age/100), t.longest()))
	g, ways := get(t.a, t.newKey(), ttl), t.renewals()
	var w *waiting
	if waited {
		w = t.wait(t.b, g.key, t.long())
		t.arrived(g.key, 1)
	}
	for i, end := 0, g.after.Add(age); time.Now().Before(end); i++ {
		t.passesUntil(time.Now().Add(ttl / often))
		way := ways[i%len(ways)]
		t.renewBy(g, ttl, func() error { return way.renew(t.ctx, g, ttl) })
		if g.gone() && g.live(time.Now()) {
			t.fatalf("Lost is closed on a lease that has been renewed in time for %v", time.Since(g.after))
		}
	}
	t.heldBy(g)
	t.release(g)
	if w != nil {
		t.release(w.granted(t, t.handOff(), "after the release of a lease that was renewed for long"))
	}
}

// agedClient lets a client be that holds a lease, and makes no request.
func (t *trial) agedClient(age time.Duration) {
	c := t.open()
	g := t.acquire(c, t.newKey(), t.agedTTL(age))
	t.passesUntil(g.after.Add(age))
	t.refused(t.b, g)
	t.renew(g, t.long())
	t.release(t.acquire(c, t.newKey(), t.long()))
	t.release(g)
}

// agedTokens leaves two keys alone, one after a release and one after an expiry, and compares their tokens.
func (t *trial) agedTokens(age time.Duration) {
	if t.g.Fencing == backend.FencingNone {
		return
	}
	released := t.acquire(t.a, t.newKey(), t.short()) // a counter may be kept for the TTL
	t.release(released)
	expired := t.acquire(t.a, t.newKey(), t.short())
	t.passesUntil(expired.after.Add(t.g.Round(expired.ttl) + age))
	t.expire(expired)
	for _, last := range []*grant{released, expired} {
		next := t.acquire(t.b, last.key, t.long())
		if next.Token() <= last.Token() {
			t.breaks(7, "a key that was free for %v is granted with token %d after %d", time.Since(last.after), next.Token(),
				last.Token())
		}
		t.release(next)
	}
}
