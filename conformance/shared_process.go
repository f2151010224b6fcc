package conformance

import (
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of readers and writers in other processes that are frozen or killed.
var sharedProcessChecks = []Check{
	{
		Name: "KilledReaderFreesKey",
		Rule: "rules 3 and 9: a killed reader is gone by its own TTL and Guarantees.MaxLate, although others renew, " +
			"for an attempt and for a waiter",
		Needs: []Need{needsProcess},
		run:   killedReaderFreesKey,
	},
	{
		Name: "FrozenReaderLosesAlone",
		Rule: "rules 3, 5 and 6: a frozen reader is gone by its own TTL; thawed, it learns of the loss, and touches " +
			"neither readers nor writer",
		Needs: []Need{needsProcess},
		run:   frozenReaderLosesAlone,
	},
	{
		Name: "KilledWriterFreesReaders",
		Rule: "rule 9: a waiting writer that is killed delays the readers behind it for a bounded time, even while " +
			"other readers stay",
		Needs: []Need{needsProcess},
		run:   killedWriterFreesReaders,
	},
	{
		Name: "FrozenWaitersDelayReadersBriefly",
		Rule: "rules 1 and 9: a frozen writer delays readers behind it for its TTL and MaxLate; one whose place has " +
			"ended is not in beside the next",
		Needs: []Need{needsProcess},
		run:   frozenWaitersDelayReadersBriefly,
	},
	{
		Name:  "KilledParkedReaderDelaysWriterBriefly",
		Rule:  "rule 9: a waiting reader that is killed delays the writer behind it for its TTL and MaxLate at most",
		Needs: []Need{needsProcess},
		run:   killedParkedReaderDelaysWriterBriefly,
	},
}

// remotelyShared begins a shared Acquire in process p.
func (t *trial) remotelyShared(p Process, key string, ttl time.Duration, wait bool) *remote {
	return t.remoteRequest(p, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait, Shared: true})
}

// remoteRead acquires a shared lease, in process p, of a key that no exclusive request holds or waits for.
func (t *trial) remoteRead(p Process, key string, ttl time.Duration) *remote {
	r := t.remotelyShared(p, key, ttl, false)
	r.granted(soon, "key without a writer")
	return r
}

func killedReaderFreesKey(t *trial) {
	p := t.process(0)
	waited, tried := t.newKey(), t.newKey()
	// Each key has live readers as well.
	live := []*grant{t.read(t.a, waited, t.long()), t.read(t.a, tried, t.long()), t.read(t.b, tried, t.long())}
	dead := []*remote{t.remoteRead(p, waited, t.short()), t.remoteRead(p, tried, t.short())}
	w := t.wait(t.b, waited, t.long())
	t.arrived(waited, 1)
	p.Kill()
	last := t.lastRefusal(dead[1].after, dead[1].ttl)
	for time.Now().Before(last) {
		for _, g := range live {
			t.renew(g, t.long())
		}
		time.Sleep(t.short() / 16)
	}
	t.outlast(last.Add(time.Millisecond))
	t.readersKeepOut(live[1:], "when the TTL of a killed reader has run out")
	w.stillWaits(t, live[0], t.rule)
	for _, g := range live {
		t.release(g)
	}
	t.mustBeFree(t.b, tried, "after the TTL of a killed reader, and the release of all others")
	t.release(w.granted(t, t.handOff(), "after the TTL of a killed reader, and the release of the only other one"))
	t.becomesFree(t.a, waited, t.handOff(), "after the writer's release")
}

func frozenReaderLosesAlone(t *trial) {
	p := t.process(0)
	keys := []string{t.newKey(), t.newKey()}
	other := t.read(t.a, keys[1], t.long())
	frozen := []*remote{t.remoteRead(p, keys[0], t.short()), t.remoteRead(p, keys[1], t.short())}
	p.Freeze()
	w := t.wait(t.b, keys[0], t.long())
	writer := w.granted(t, t.g.Round(t.short())+t.handOff(), "after the TTL of a frozen reader")
	if early := frozen[0].until().Sub(writer.after); early > 0 {
		t.doubleGrant("the key of a frozen reader was granted %v before its deadline", early)
	}
	t.outlast(t.lastRefusal(frozen[1].after, frozen[1].ttl))
	stale := make(chan error, 2)
	t.spawn(func() { stale <- p.Renew(t.ctx, frozen[0].owner, t.long()) })
	t.spawn(func() { stale <- p.Release(t.ctx, frozen[1].owner) })
	time.Sleep(tick)
	p.Thaw()
	for range 2 {
		t.isLost(<-stale, "first request of a thawed reader")
	}
	for _, r := range frozen {
		r.mustBeLost("thawed reader")
	}
	t.readRefused(writer)
	t.describes(writer, t.long())
	t.heldBy(writer)
	t.readersKeepOut([]*grant{other}, "after the requests of a thawed reader")
	t.release(writer)
	t.release(other)
	for _, key := range keys {
		t.mustBeFree(t.b, key, "after a thawed reader, and the release of all others")
	}
}

// killedWriterFreesReaders kills a waiting writer while a reader holds the key for long. The readers behind the writer
// must not wait for the holder's release. In the first case the process has two waiting writers; in the third, nobody
// waits behind the writer; in the fourth, another writer waits before it and leaves.
func killedWriterFreesReaders(t *trial) {
	const writers = 2 // killed ones, at most, each with a turn that must end
	bound := writers*(t.g.Round(t.short())+t.g.MaxLate) + soon + recovery
	t.inChunks(4, 5, func(i int) {
		p, key := t.process(0), t.newKey()
		reader := t.read(t.a, key, 2*t.long())
		var first *waiting
		queued := 1
		if i == 3 {
			first = t.wait(t.b, key, t.long())
			t.arrived(key, 1)
			queued++
		}
		t.remoteWait(p, key, t.short(), queued)
		if i == 0 {
			queued++
			t.remoteWait(p, key, t.short(), queued)
		}
		if i == 2 {
			t.noReaderEnters(key, "behind a writer in another process")
			p.Kill()
			var beside *grant
			if !t.poll(bound, func() bool { beside, _ = t.share(t.b, key, t.long()); return beside != nil }) {
				t.notInTime(t.rule, "shared requests that do not wait are still refused %v after a waiting writer was killed",
					bound)
			}
			t.readersKeepOut([]*grant{reader, beside}, "after a waiting writer was killed")
			t.release(reader)
			t.release(beside)
			t.becomesFree(t.b, key, t.handOff(), "after the last reader's release")
			return
		}
		parked := []*waiting{t.waitToRead(t.b, key, t.long()), t.waitToRead(t.a, key, t.long())}
		t.arrived(key, queued+2)
		for _, w := range parked {
			w.stillWaits(t, reader, t.rule)
		}
		p.Kill()
		switch i {
		case 1: // the killed writer's turn comes
			t.release(reader)
		case 3:
			first.cancelAndFail(t)
		}
		readers := t.readersEnter(parked, bound, "behind a writer that was killed")
		if i != 1 {
			readers = append(readers, reader)
		}
		t.readersKeepOut(readers, "behind a writer that was killed")
		for _, g := range readers {
			t.release(g)
		}
		t.becomesFree(t.b, key, t.handOff(), "after the last reader's release")
	})
}

// frozenWaitersDelayReadersBriefly freezes a writer or a reader in the queue until its turn has passed.
func frozenWaitersDelayReadersBriefly(t *trial) {
	t.inChunks(2, 4, func(i int) {
		p, key := t.process(0), t.newKey()
		var held *grant
		var frozen *remote
		var next *waiting
		if i == 0 { // a writer between readers
			held = t.read(t.a, key, t.long())
			frozen = t.remoteWait(p, key, t.short(), 1)
			next = t.waitToRead(t.b, key, t.long())
		} else { // a reader between writers
			held = t.acquire(t.a, key, t.long())
			frozen = t.remoteWaitToRead(p, key, t.short(), 1)
			next = t.wait(t.b, key, t.long())
		}
		t.confirmQueued(key, 2)
		p.Freeze()
		t.release(held)
		g := next.granted(t, t.g.Round(t.short())+t.handOff(),
			"after release, with a waiter before it whose process is frozen")
		p.Thaw()
		if frozen.answered(t.h.ArrivalDelay*time.Duration(t.stretch)) && frozen.claimsLive() {
			t.doubleGrant("a thawed waiter was granted the key for another %v, which has passed on to the next",
				frozen.answer.Left)
		}
		t.refused(t.a, g)
		t.renew(g, t.long())
		t.release(g)
		frozen.finishes(g)
	})
}

func killedParkedReaderDelaysWriterBriefly(t *trial) {
	kills := []func(release, kill func()){
		func(release, kill func()) { kill(); release() },
		func(release, kill func()) { release(); kill() },
		func(release, kill func()) { go kill(); release() },
	}
	t.inChunks(len(kills), 3, func(i int) {
		p, key := t.process(0), t.newKey()
		g := t.acquire(t.a, key, t.long())
		t.remoteWaitToRead(p, key, t.short(), 1)
		beside := t.waitToRead(t.a, key, t.long())
		t.arrived(key, 2)
		w := t.wait(t.b, key, t.long())
		t.arrived(key, 3)
		kills[i](func() { t.release(g) }, p.Kill)
		t.release(beside.granted(t, t.handOff(), "after release, beside a reader that was killed"))
		next := w.granted(t, t.g.Round(t.short())+t.handOff(), "after readers, of which one was killed as it waited")
		t.readRefused(next)
		t.release(next)
		t.becomesFree(t.a, key, t.handOff(), "after the last writer's release")
	})
}

// remoteWaitToRead is remoteWait for a reader.
func (t *trial) remoteWaitToRead(p Process, key string, ttl time.Duration, n int) *remote {
	r := t.remotelyShared(p, key, ttl, true)
	r.arrives(n)
	return r
}
