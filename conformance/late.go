package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var lateChecks = []Check{
	{
		Name:  "LateGrantIsReleased",
		Rule:  "rule 4: a grant whose answer comes when the context has ended does not stay behind",
		Needs: []Need{needsLinked},
		run:   lateGrantIsReleased,
	},
	{
		Name: "LateAnswerCountsFromSending",
		Rule: "rules 1 and 2: an answer that comes late, or to a request that was sent again, leaves that much less of the " +
			"lease, so that the next one does not overlap it",
		Needs: []Need{needsLinked},
		run:   lateAnswerCountsFromSending,
	},
	{
		Name:  "LateAnswerRevivesNothing",
		Rule:  "rules 5 and 6: an answer to a renewal that comes after the deadline finds the lease lost, and Lost closed",
		Needs: []Need{needsLinked},
		run:   lateAnswerRevivesNothing,
	},
	{
		Name: "LateAcquireLeavesNothing",
		Rule: "rules 1 and 4: an Acquire that reaches the store when its context has ended takes nothing away and leaves " +
			"nothing behind",
		Needs: []Need{needsLinked},
		run:   lateAcquireLeavesNothing,
	},
	{
		Name: "LateTurnIsOneLease",
		Rule: "rules 1 and 4: a waiter whose turn came too late to be of use has no lease, or another that nothing " +
			"takes away again",
		Needs: []Need{needsLinked},
		run:   lateTurnIsOneLease,
	},
	{
		Name:  "LateRenewSparesNext",
		Rule:  "rule 5: a renewal that reaches the store when the key has a new holder does not touch it",
		Needs: []Need{needsLinked},
		run:   lateRenewSparesNext,
	},
	{
		Name: "LateShorterRenewIsCounted",
		Rule: "rule 2: a renewal that went unanswered may reach the store after a longer one: the deadline is never later " +
			"than the store's expiry",
		Needs: []Need{needsLinked},
		run:   lateShorterRenewIsCounted,
	},
	{
		Name:  "LateReleaseSparesNext",
		Rule:  "rule 5: a release that reaches the store when the key has a new holder does not touch it",
		Needs: []Need{needsLinked},
		run:   lateReleaseSparesNext,
	},
	{
		Name:  "SlowReleaseSparesNext",
		Rule:  "rule 5: a release that races the expiry of its lease on a slow link never frees the next holder",
		Needs: []Need{needsLinked},
		run:   slowReleaseSparesNext,
	},
	{
		Name:  "SlowLinkServes",
		Rule:  "a slow link makes everything slow and nothing wrong",
		Needs: []Need{needsLinked},
		run:   slowLinkServes,
	},
}

// endsByDeadline fails unless err is context.DeadlineExceeded and contains its text. The text of a network or server
// timeout is not enough.
func (t *trial) endsByDeadline(err error, what string) {
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.fatalf("%s when its context's deadline has passed: %v, want context.DeadlineExceeded", what, err)
	}
}

// unanswered makes an Acquire whose reply the link holds back, and waits for its context to end. The request may have
// reached the store.
func (t *trial) unanswered(c backend.Backend, r backend.Request) {
	const patience = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	w := t.begin(ctx, c, r)
	if !t.within(patience+soon, w.done) {
		t.fatalf("Acquire has not returned %v after its context ended", soon)
	}
	t.endsByDeadline(w.err, "Acquire without an answer")
}

func lateGrantIsReleased(t *trial) {
	c, link := t.linked()
	for _, wait := range []bool{false, true} {
		t.usable(c)
		r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(), Wait: wait}
		link.Hold(FromStore)
		t.unanswered(c, r)
		link.Heal()
		t.becomesFree(t.b, r.Key, recovery, "after a grant whose answer came when the context had ended")
		t.usable(c)
	}
}

// lateTurnIsOneLease holds back the notification of a waiter's turn until the turn has ended.
func lateTurnIsOneLease(t *trial) {
	const cases = 3
	t.inChunks(2*cases, 1, func(i int) {
		again := i >= cases // the waiter's connection breaks first, and the waiter queues again
		i %= cases
		c, link := t.linked()
		t.usable(c)
		g := t.acquire(t.a, t.newKey(), t.long())
		next := &grant{key: g.key, owner: backend.NewOwner(), ttl: t.short(), before: time.Now()}
		wait := t.call(func() (err error) {
			next.Lease, err = c.Acquire(t.ctx, backend.Request{Key: next.key, Owner: next.owner, TTL: next.ttl, Wait: true})
			next.after = time.Now()
			return err
		})
		t.confirmQueued(g.key, 1)
		if again {
			link.Cut()
			t.usable(c)
			t.queuesAgain(g.key, 1)
		}
		link.Hold(FromStore)
		t.release(g)
		time.Sleep(t.g.Round(t.short()) + time.Duration(i)*t.short()/8)
		link.Heal()
		bound := 2*t.g.Round(t.short()) + t.g.MaxLate + recovery
		// After ErrLost, package lock makes another attempt, as another owner.
		if err := wait.ends(t, bound, "Acquire whose turn came late"); err == nil {
			t.keepsWhatItHas(next)
		}
		t.becomesFree(t.b, g.key, bound, "after a waiter whose turn came late")
	})
}

// keepsWhatItHas fails if another owner is granted the key before g's deadline.
func (t *trial) keepsWhatItHas(g *grant) {
	for {
		other, err := t.attempt(t.b, g.key, t.short())
		now := time.Now()
		switch {
		case other != nil && g.live(other.after):
			t.doubleGrant("another was granted the key %v before the deadline of a waiter whose turn had come late",
				g.Deadline().Sub(other.after))
		case other != nil:
			t.release(other)
			return
		case !g.live(now):
			return
		case !errors.Is(err, backend.ErrHeld):
			t.fatalf("Acquire of a held key: %v, want ErrHeld", err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// lateBy is the minimum delay of late replies and requests.
const lateBy = 150 * time.Millisecond

func lateAnswerCountsFromSending(t *trial) {
	ttl := t.g.Round(max(2*lateBy, t.short()))
	modes := t.modes()
	t.together((2+len(t.extensions()))*len(modes), func(i int) {
		c, link := t.linked()
		for _, lost := range []bool{false, true} {
			t.usable(c)
			a := &lateAnswer{t, c, link, ttl, lost}
			if g := a.lease(i/len(modes), modes[i%len(modes)]); g != nil {
				t.overlapsNot(g, ttl)
			}
		}
	})
}

// extensions returns the renewals, and Resume by the lease's own client.
func (t *trial) extensions() []renewal {
	ways := t.renewals()
	if _, ok := t.a.(backend.Resumer); !ok {
		return ways
	}
	return append(ways, renewal{"Resume", func(ctx context.Context, g *grant, ttl time.Duration) error {
		r := backend.Request{Key: g.key, Owner: g.owner, TTL: ttl, Shared: g.shared}
		l, err := g.client.(backend.Resumer).Resume(ctx, r)
		if err == nil {
			g.Lease = l
		}
		return err
	}})
}

// A lateAnswer is the answer to a request for a lease of ttl, which arrives late. If lost is set, its connection breaks
// instead, and a client may send the request again.
type lateAnswer struct {
	*trial
	c    backend.Backend
	link Link
	ttl  time.Duration
	lost bool
}

// lease returns a lease of an attempt, a waiter or an extension, as way decides. It returns nil if the answer was lost
// and the client has not sent the request again.
func (a *lateAnswer) lease(way int, shared bool) *grant {
	r := backend.Request{Key: a.newKey(), Owner: backend.NewOwner(), TTL: a.ttl, Shared: shared}
	switch way {
	case 0:
		a.withhold()
		return a.granted(a.begin(a.ctx, a.c, r), recovery)
	case 1:
		held := a.acquire(a.a, r.Key, a.long())
		r.Wait = true
		w := a.begin(a.ctx, a.c, r)
		a.confirmQueued(r.Key, 1)
		a.withhold()
		a.release(held)
		// After a grant that was lost, a waiter may queue again, as another owner, until the TTL of that grant is over.
		return a.granted(w, 2*a.g.Round(a.ttl)+a.g.MaxLate+recovery)
	}
	extend, g := a.extensions()[way-2], a.getterOf(shared)(a.c, r.Key, a.long())
	a.withhold()
	call := a.call(func() error { return extend.renew(a.ctx, g, a.ttl) })
	time.Sleep(lateBy)
	a.link.Heal()
	if a.fails(call.ends(a.trial, recovery, extend.what+" whose answer came late")) {
		return nil
	}
	return g
}

// withhold holds back the answers of the store, or loses them.
func (a *lateAnswer) withhold() {
	if a.lost {
		a.link.Drop(FromStore)
	} else {
		a.link.Hold(FromStore)
	}
}

// granted delivers the reply to w after lateBy. It returns what w was granted, which must be within d.
func (a *lateAnswer) granted(w *waiting, d time.Duration) *grant {
	time.Sleep(lateBy)
	a.link.Heal()
	if !a.within(d, w.done) {
		a.fatalf("Acquire whose answer came late has not returned %v after it", d)
	}
	if a.fails(w.err) {
		return nil
	}
	return w.grant
}

// fails reports whether the request has failed with err because its answer was lost.
func (a *lateAnswer) fails(err error) bool {
	if err != nil && !a.lost {
		a.tooLate("a request for %v whose answer came %v late: %v", a.ttl, lateBy, err)
	}
	return err != nil // other checks test what stays behind
}

// overlapsNot makes another owner wait for the key of g, whose holder no longer renews it. It fails if the key is
// granted before g's deadline.
func (t *trial) overlapsNot(g *grant, ttl time.Duration) {
	next := t.wait(t.b, g.key, t.short()).granted(t, t.g.Round(ttl)+t.handOff(), "after the holder's expiry")
	if early := g.Deadline().Sub(next.after); early > 0 {
		t.doubleGrant("the next owner was granted the key %v before the deadline of a lease whose answer came late", early)
	}
	t.release(next)
}

func lateAcquireLeavesNothing(t *trial) {
	c, link := t.linked()
	for _, wait := range []bool{false, true} {
		t.usable(c)
		stale := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(), Wait: wait}
		taken := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(), Wait: wait}
		link.Hold(ToStore)
		t.together(2, func(i int) { t.unanswered(c, []backend.Request{stale, taken}[i]) })
		g := t.acquire(t.b, taken.Key, t.long())
		link.Heal()
		t.refusedFor(t.a, g, lateBy)
		t.heldBy(g)
		t.release(g)
		t.becomesFree(t.b, taken.Key, recovery, "after the release of a key that was asked for late")
		t.becomesFree(t.b, stale.Key, recovery, "after an Acquire that reached the store when its context had ended")
	}
}

func lateRenewSparesNext(t *trial) {
	t.lateToNext(func(g *grant) error { return g.Renew(t.ctx, 2*t.long()) })
}

func lateReleaseSparesNext(t *trial) {
	t.lateToNext(func(g *grant) error { return g.Release(t.ctx) })
}

// lateToNext makes a request for a live lease that reaches the store only after the key has a new holder. In a second
// case, the connection breaks first. That request gets no reply, and the client may retry it on another connection.
func (t *trial) lateToNext(request func(g *grant) error) {
	t.together(2, func(i int) { t.lateRequest(t.newKey(), i == 1, request) })
}

func (t *trial) lateRequest(key string, cut bool, request func(g *grant) error) {
	c, link := t.linked()
	g := t.acquire(c, key, t.short())
	link.Hold(ToStore)
	late := t.call(func() error { return request(g) })
	next := t.wait(t.b, key, t.long()).granted(t, t.g.Round(t.short())+t.handOff(),
		"after the expiry of a holder that was cut off")
	behind := t.wait(t.a, key, t.long())
	t.arrived(key, 1)
	if cut {
		link.Cut()
	}
	link.Heal()
	if err := late.ends(t, 2*recovery, "a request that came late to the store"); err == nil {
		t.fatalf("a request of a live lease that came to the store after its expiry succeeded")
	}
	t.refusedFor(t.a, next, lateBy)
	t.describes(next, t.long())
	t.heldBy(next)
	t.renew(next, t.long())
	behind.stillWaits(t, next, t.rule)
	t.release(next)
	t.release(behind.granted(t, t.handOff(), "after release, behind the next holder, with a late request before"))
}

func slowReleaseSparesNext(t *trial) {
	keys := min(8, t.h.Many) // each release arrives at a different moment around the expiry
	c, link := t.linked()
	t.usable(c)
	grants, nexts := make([]*grant, keys), make([]*waiting, keys)
	t.together(keys, func(i int) {
		grants[i] = t.acquire(c, t.newKey(), t.short())
		nexts[i] = t.wait(t.b, grants[i].key, t.long())
	})
	delay := t.short() / 3
	link.Delay(ToStore, delay)
	t.together(keys, func(i int) {
		g := grants[i]
		// The release is sent while the lease is live. It arrives between half a delay before the deadline and almost a full
		// delay after it.
		time.Sleep(time.Until(g.Deadline().Add(-delay*3/2 + delay*time.Duration(11*i)/time.Duration(8*keys))))
		release := t.call(func() error { return g.Release(t.ctx) })
		next := nexts[i].granted(t, t.g.Round(t.short())+t.handOff(), "after a release that was slow to arrive")
		_ = release.ends(t, recovery, "Release on a slow link")
		t.heldBy(next)
		t.release(next)
	})
}

func slowLinkServes(t *trial) {
	const delay = 100 * time.Millisecond
	ttl := t.g.Round(max(8*delay, t.g.MinTTL) * time.Duration(t.stretch))
	c, link := t.linked()
	t.usable(c)
	link.Delay(ToStore, delay)
	link.Delay(FromStore, delay)
	acquire := func(ttl time.Duration) (g *grant) {
		t.patiently("Acquire of a free key", nil, func() (err error) {
			g, err = t.requestKey(t.ctx, c, t.newKey(), ttl, false)
			return err
		})
		return g
	}
	t.together(3, func(i int) {
		switch i {
		case 0:
			t.slowlyHandedOver(c)
		case 1:
			t.overlapsNot(acquire(ttl), ttl)
		case 2:
			g := acquire(t.long())
			t.patiently("Renew", nil, func() error {
				begun := time.Now()
				err := g.Renew(t.ctx, ttl)
				if now := time.Now(); errors.Is(err, backend.ErrLost) && !now.Before(backend.Deadline(begun, ttl)) {
					t.tooLate("Renew for %v on a slow link took %v: %v", ttl, now.Sub(begun), err)
				}
				return err
			})
			t.overlapsNot(g, ttl)
		}
	})
}

// patiently repeats a request on a slow link until its outcome is known, and fails unless the outcome is want. On a
// busy machine, a client that must connect first may time out, but not repeatedly.
func (t *trial) patiently(what string, want error, request func() error) {
	var err error
	for attempt := range 4 {
		err = request()
		if attempt > 0 && errors.Is(err, backend.ErrLost) {
			t.tooLate("%s on a slow link, after an attempt without an answer: %v", what, err)
		}
		if err == nil || kit.Definite(err) || errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrLost) {
			break
		}
	}
	if !errors.Is(err, want) {
		t.fatalf("%s on a slow link: %v, want %v", what, err, want)
	}
}

// slowlyHandedOver hands a key over to a client on a slow link, which then renews and releases it.
func (t *trial) slowlyHandedOver(c backend.Backend) {
	held := t.acquire(t.a, t.key, t.long())
	t.patiently("Acquire of a held key", backend.ErrHeld, func() error {
		_, err := t.requestKey(t.ctx, c, t.key, t.long(), false)
		return err
	})
	var w *waiting
	t.patiently("Acquire that waits", nil, func() error {
		w = t.wait(c, t.key, t.long())
		for end := time.Now().Add(recovery); time.Now().Before(end) && !w.ended(); time.Sleep(tick) {
			if h := t.inspect(t.key); h.Waiters != 0 {
				t.confirmQueued(t.key, 1)
				return nil
			}
		}
		return w.err
	})
	t.release(held)
	next := w.granted(t, t.handOff(), "after release, on a slow link")
	t.refused(t.b, next)
	t.patiently("Renew", nil, func() error { return next.Renew(t.ctx, t.long()) })
	t.patiently("Release", nil, func() error { return next.Release(t.ctx) })
	t.free(t.b, t.key, "after release on a slow link")
}
