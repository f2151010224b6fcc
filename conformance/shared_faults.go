package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of readers and writers whose requests or replies get lost, or whose store restarts.
var sharedFaultChecks = []Check{
	{
		Name: "CancelledReaderLeavesNothing",
		Rule: "rule 4: a shared Acquire that is cancelled, at its grant or before, leaves neither a lease nor a place " +
			"in the queue",
		run: cancelledReaderLeavesNothing,
	},
	{
		Name: "LostSharedReplyLeavesNothing",
		Rule: "rules 4 and 5: a shared Acquire whose answer is lost recognises its own owner: it has one lease, or fails " +
			"and is cleaned up; a Release whose answer is lost ends no other reader",
		Needs: []Need{needsLinked},
		run:   lostSharedReplyLeavesNothing,
	},
	{
		Name: "LateSharedAcquireLeavesNothing",
		Rule: "rule 4: a shared Acquire that reaches the store when its context has ended leaves neither a " +
			"lease nor a place " +
			"in the queue, and ends no other reader",
		Needs: []Need{needsLinked},
		run:   lateSharedAcquireLeavesNothing,
	},
	{
		Name: "LateSharedTurnIsOneLease",
		Rule: "rules 1 and 2: a reader that learns late of its turn counts its lease from then no longer than the " +
			"store does",
		Needs: []Need{needsLinked},
		run:   lateSharedTurnIsOneLease,
	},
	{
		Name: "CutSharedWaitersGetTurn",
		Rule: "rules 1 and 9: readers and writers whose connections break while they wait get their turn, and none " +
			"passes a waiting writer",
		Needs: []Need{needsCut},
		alone: true, // the Cut hook may cut every client
		run:   cutSharedWaitersGetTurn,
	},
	{
		Name:  "RestartKeepsReaders",
		Rule:  "rules 1 and 9: readers outlive a restart of the store as writers do; who waits gets its turn",
		Needs: []Need{needsRestart, needsNoEarlyLoss},
		alone: true,
		run:   restartKeepsReaders,
	},
	{
		Name: "EvictedReadersReviveNothing",
		Rule: "rules 1 and 5: when the store has dropped the readers of a key, their renewals and releases are ErrLost " +
			"and touch nobody",
		Needs: []Need{needsEvict},
		run:   evictedReadersReviveNothing,
	},
}

func lostSharedReplyLeavesNothing(t *trial) {
	t.inChunks(2, 2, func(i int) {
		c, link := t.linked()
		for n := range lostReplies {
			t.usable(c)
			r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(), Wait: n == 1, Shared: true}
			var others []*grant
			if i == 1 {
				others = append(others, t.read(t.a, r.Key, t.long()))
			}
			var w, behind *waiting
			t.dropReplies(link, func() { w = t.begin(t.ctx, c, r) }, func() bool {
				reached := t.inspect(r.Key).Shared > len(others)
				if reached && n == 2 && i == 0 { // a writer comes before the client can clean up
					behind = t.wait(t.a, r.Key, t.long())
					t.arrived(r.Key, 1)
				}
				return reached
			})
			if !t.within(recovery, w.done) {
				t.fatalf("shared Acquire whose answer was lost has not returned %v after the outage", recovery)
			}
			switch {
			case errors.Is(w.err, backend.ErrHeld) && behind == nil: // a repeated request does not pass the writer
				t.fatalf("shared Acquire whose answer was lost: %v, though nobody held the key exclusively", w.err)
			case w.err == nil:
				t.readersKeepOut(append(others, w.grant), "after a shared Acquire whose answer was lost")
				t.release(w.grant)
			}
			if behind != nil {
				t.release(behind.granted(t, recovery, "behind a reader whose grant's answer was lost"))
			}
			for _, g := range others {
				t.refused(t.b, g)
				t.renew(g, t.long())
				t.release(g)
			}
			if w.err == nil {
				t.mustBeFree(t.b, r.Key, "after the release of a lease whose grant's first answer was lost, and all others")
			} else {
				t.becomesFree(t.b, r.Key, recovery, "after a shared Acquire whose answer was lost with its connection")
			}
		}
		t.losesReleaseReply(c, link, i == 1)
	})
}

func lateSharedAcquireLeavesNothing(t *trial) {
	t.inChunks(2, 4, func(i int) {
		wait := i == 1
		c, link := t.linked()
		t.usable(c)
		late := func(key string) backend.Request {
			return backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long(), Wait: wait, Shared: true}
		}
		free, held, shared := late(t.newKey()), late(t.newKey()), late(t.newKey())
		link.Hold(ToStore)
		t.together(3, func(j int) { t.unanswered(c, []backend.Request{free, held, shared}[j]) })
		writer, reader := t.acquire(t.b, held.Key, t.long()), t.read(t.a, shared.Key, t.long())
		link.Heal()
		t.refusedFor(t.a, writer, lateBy)
		t.usable(c)
		t.heldBy(writer)
		t.refused(t.b, reader)
		t.renew(reader, t.long())
		t.release(reader)
		t.becomesFree(t.b, shared.Key, recovery, "after the release of the only reader, and a shared Acquire that came late")
		t.release(writer)
		t.becomesFree(t.b, held.Key, recovery, "after the release of a writer, and a shared Acquire that came late")
		t.becomesFree(t.b, free.Key, recovery, "after a shared Acquire that reached the store when its context had ended")
	})
}

// lateSharedTurnIsOneLease holds back the notification of a reader's turn until the turn has ended, like
// lateTurnIsOneLease.
func lateSharedTurnIsOneLease(t *trial) {
	t.together(3, func(i int) {
		c, link := t.linked()
		t.usable(c)
		held := t.acquire(t.a, t.newKey(), t.long())
		next := &grant{key: held.key, owner: backend.NewOwner(), ttl: t.short(), before: time.Now(), shared: true}
		wait := t.call(func() (err error) {
			r := backend.Request{Key: next.key, Owner: next.owner, TTL: next.ttl, Wait: true, Shared: true}
			next.Lease, err = c.Acquire(t.ctx, r)
			next.after = time.Now()
			return err
		})
		t.confirmQueued(held.key, 1)
		link.Hold(FromStore)
		t.release(held)
		time.Sleep(t.g.Round(t.short()) + time.Duration(i)*t.short()/8)
		link.Heal()
		bound := 2*t.g.Round(t.short()) + t.g.MaxLate + recovery
		if err := wait.ends(t, bound, "shared Acquire whose turn came late"); err == nil {
			t.keepsWhatItHas(next)
		}
		t.becomesFree(t.b, held.key, bound, "after a reader whose turn came late")
	})
}

// cutSharedWaitersGetTurn cuts a reader behind a writer that holds or waits, and a writer behind a reader. A waiter that
// is cut may lose its place.
func cutSharedWaitersGetTurn(t *trial) {
	t.inChunks(3, 4, func(i int) {
		c, cut := t.cuttable()
		t.usable(c)
		key := t.newKey()
		if i == 2 {
			t.cutsReaderBehindWriter(c, cut, key)
		} else if i == 0 {
			held := t.acquire(t.a, key, t.long())
			waits := []*waiting{t.waitToRead(c, key, t.long()), t.waitToRead(t.b, key, t.long())}
			t.confirmQueued(key, 2)
			cut()
			time.Sleep(t.h.ArrivalDelay)
			for _, w := range waits {
				w.stillWaits(t, held, t.rule)
			}
			t.release(held)
			for _, g := range t.readersEnter(waits, recovery+t.g.MaxLate,
				"after release, with a reader whose connection broke before") {
				t.refused(t.a, g)
				t.release(g)
			}
		} else {
			reader := t.read(t.a, key, t.long())
			w := t.wait(c, key, t.long())
			t.confirmQueued(key, 1)
			cut()
			time.Sleep(t.h.ArrivalDelay)
			if !t.poll(recovery, func() bool { return t.inspect(key).Waiters != 0 }) {
				t.fatalf("a writer whose connection broke has not queued again after %v", recovery)
			}
			time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
			w.stillWaits(t, reader, t.rule)
			t.noReaderEnters(key, "behind a waiting writer whose connection broke")
			t.refused(t.b, reader)
			t.release(reader)
			g := w.granted(t, recovery+t.g.MaxLate, "after the release of the only reader, with connections that broke before")
			t.readRefused(g)
			t.release(g)
		}
		t.becomesFreeAfterOutage(t.b, key)
		// The old place of a writer that was cut may keep readers out for as long as other traces of a broken connection.
		t.release(t.sharedWithin(recovery+t.g.MaxLate, t.a, key, "after waits whose connections broke"))
	})
}

// cutsReaderBehindWriter cuts a reader that waits behind a writer, which waits behind another reader.
func (t *trial) cutsReaderBehindWriter(c backend.Backend, cut func(), key string) {
	reader := t.read(t.a, key, t.long())
	writer := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	w := t.waitToRead(c, key, t.long())
	t.confirmQueued(key, 2)
	cut()
	t.usable(c)
	t.queuesAgain(key, 2)
	w.stillWaits(t, reader, t.rule)
	writer.stillWaits(t, reader, t.rule)
	t.release(reader)
	g := writer.granted(t, t.handOff(), "after the release of the only reader, with a reader behind whose connection broke")
	t.readRefused(g)
	t.release(g)
	t.release(w.granted(t, recovery+t.g.MaxLate, "after the writer's release, with connections that broke before"))
}

func restartKeepsReaders(t *trial) {
	alone := t.read(t.b, t.newKey(), t.long())
	for range 4 { // so that its token is not the first
		t.release(alone)
		alone = t.read(t.b, alone.key, t.long())
	}
	readers := t.readers(t.key, 3, t.long())
	dead := t.read(t.b, t.key, t.g.Round(4*t.short()))
	renewed := t.read(t.a, t.key, dead.ttl)
	t.renew(renewed, t.long())
	renewed.ttl = t.long()
	end := readers[0].Deadline() // the readers make no requests in between
	w := t.wait(t.b, t.key, t.long())
	t.confirmQueued(t.key, 1)
	writer := t.acquire(t.a, t.newKey(), t.long())
	parked := []*waiting{t.waitToRead(t.a, writer.key, t.long()), t.waitToRead(t.b, writer.key, t.long())}
	t.confirmQueued(writer.key, 2)
	time.Sleep(time.Until(dead.after.Add(dead.ttl / 2))) // a TTL that is counted from the start again is late then
	t.h.Restart()
	restarted := time.Now()
	t.sharedOverRestart(readers[0], end)
	for _, g := range readers {
		t.renewAfterRestart(g)
	}
	t.renewAfterRestart(writer)
	t.renewAfterRestart(alone)
	t.refused(t.a, readers[1])
	if t.inspect(t.key).Waiters >= 0 { // otherwise nothing shows when the writer waits again
		t.queuesAgain(t.key, 1)
		t.noReaderEnters(t.key, "behind a writer that waits since before a restart")
	}
	last := later(t.lastRefusal(dead.after, dead.ttl), restarted)
	if t.countsAnew() {
		last = t.lastRefusal(restarted, dead.ttl)
	}
	t.outlast(last)
	if !renewed.live(time.Now()) {
		t.tooLate("a lease that was renewed ended before what the store keeps of it over a restart could be seen")
	}
	readers = append(readers, renewed) // the store must have kept the renewal's TTL, not the grant's
	t.holdersAre(readers, "after a restart, and the expiry of a reader")
	for _, g := range readers {
		w.stillWaits(t, g, t.rule)
		t.refused(t.b, g)
		t.release(g)
	}
	g := w.granted(t, t.handOff()+recovery, "after a restart, the expiry of a reader and the release of all others")
	t.readRefused(g)
	t.release(g)
	t.release(writer)
	for _, r := range t.readersEnter(parked, t.handOff()+recovery, "after a restart and the writer's release") {
		t.release(r)
	}
	t.becomesFree(t.b, writer.key, recovery, "after the last release")
	t.becomesFree(t.b, t.key, recovery, "after the last release")
	t.sharesAfterRestart(alone)
}

// sharesAfterRestart shares the key of alone, a reader from before a restart.
func (t *trial) sharesAfterRestart(alone *grant) {
	t.renewAfterRestart(alone)
	beside := t.soonShared(t.a, alone.key, "beside a reader from before a restart")
	t.readersKeepOut([]*grant{alone, beside}, "after a restart, and a new reader")
	t.release(alone)
	t.release(beside)
	next := t.acquire(t.a, alone.key, t.long())
	if t.g.Fencing >= backend.FencingRestart && next.Token() <= max(alone.Token(), beside.Token()) {
		t.breaks(7, "a writer has token %d, after readers with tokens %d, from before a restart, and %d", next.Token(),
			alone.Token(), beside.Token())
	}
	t.release(next)
}

// sharedOverRestart waits until an exclusive request for the key of g is refused after a restart. g lives until end at
// least.
func (t *trial) sharedOverRestart(g *grant, end time.Time) {
	var err error
	if !t.poll(recovery, func() bool {
		var other *grant
		other, err = t.requestKey(t.ctx, t.b, g.key, t.long(), false)
		t.restartedBefore(end)
		if other != nil {
			t.doubleGrant("a writer was granted the key of readers after a restart, %v before a reader's deadline",
				time.Until(g.Deadline()))
		}
		return errors.Is(err, backend.ErrHeld)
	}) {
		t.fatalf("Acquire of the key of readers, %v after a restart: %v, want ErrHeld", recovery, err)
	}
}

// renewAfterRestart renews g, which must be live, once the store responds again.
func (t *trial) renewAfterRestart(g *grant) {
	var err error
	if !t.poll(recovery, func() bool {
		err = g.Renew(t.ctx, t.long())
		return err == nil || errors.Is(err, backend.ErrLost)
	}) || err != nil {
		t.fatalf("Renew of a live lease%s, after a restart: %v", inMode(g.shared), err)
	}
}

// evictedReadersReviveNothing evicts all readers of a key. Their later requests, of one kind in each case, must fail.
func evictedReadersReviveNothing(t *trial) {
	requests := t.staleRequests()
	t.inChunks(2*len(requests), 4, func(i int) {
		key := t.newKey()
		readers := t.readers(key, 2, t.long())
		for range 2 * len(readers) { // the Evict hook may drop one lease at a time
			if err := t.h.Evict(t.ctx, key); err != nil {
				t.fatalf("Evict: %v", err)
			}
			if !t.inspect(key).Held() {
				break
			}
		}
		var next *grant
		if i%2 == 0 {
			next = t.acquire(t.b, key, t.long())
		} else {
			next = t.read(t.b, key, t.long())
		}
		for _, g := range readers {
			request := requests[i/2]
			t.wantLost(request.what+" of a reader that the store has dropped", func() error {
				return request.renew(context.WithoutCancel(t.ctx), g, 2*t.long())
			})
		}
		t.refused(t.a, next)
		if next.shared {
			t.readersKeepOut([]*grant{next}, "after requests of readers that the store has dropped")
		} else {
			t.readRefused(next)
			t.describes(next, t.long())
		}
		t.release(next)
		t.mustBeFree(t.a, key, "after requests of readers that the store has dropped, and the next holder's release")
	})
}
