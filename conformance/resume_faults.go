package conformance

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of Resume after the death of the first client, and on a link with faults.
var resumeFaultChecks = []Check{
	{
		Name: "LostResumeReplyEndsNothing",
		Rule: "Resumer.Resume: after an error the lease is as it was, or has been extended: unlike a failed Acquire, a " +
			"failed Resume ends nothing",
		Needs: []Need{needsLinked},
		run:   lostResumeReplyEndsNothing,
	},
	{
		Name:  "ResumeCountsFromSending",
		Rule:  "rule 2: the deadline of a resumed lease counts from before the request was sent",
		Needs: []Need{needsLinked},
		run:   resumeCountsFromSending,
	},
	{
		Name: "LateResumeRevivesNothing",
		Rule: "rule 5: a Resume that reaches the store when the lease has ended fails: a free key stays free, and the next " +
			"holder keeps its lease",
		Needs: []Need{needsLinked},
		run:   lateResumeRevivesNothing,
	},
	{
		Name: "LeaseOfDeadProcessIsResumed",
		Rule: "Resumer.Resume returns the lease of a process that was killed or is frozen; thawed, that process does not " +
			"end it",
		Needs: []Need{needsProcess},
		run:   leaseOfDeadProcessIsResumed,
	},
}

func lostResumeReplyEndsNothing(t *trial) {
	c, link := t.linked()
	modes := t.modes()
	for n := range lostReplies {
		t.usable(c)
		g := t.getterOf(modes[n%len(modes)])(t.a, t.newKey(), t.long())
		r := backend.Request{Key: g.key, Owner: g.owner, TTL: t.long(), Shared: g.shared}
		var resume *call
		t.dropReplies(link, func() {
			resume = t.call(func() error {
				_, err := c.(backend.Resumer).Resume(t.ctx, r)
				return err
			})
		}, t.sent(link))
		err := resume.ends(t, recovery, "Resume whose answer was lost")
		if errors.Is(err, backend.ErrLost) {
			t.fatalf("Resume of a live lease whose answer was lost: %v", err)
		}
		t.usable(c)
		t.refusedFor(t.b, g, lateBy) // in case the store ends the lease in the background
		t.renew(g, t.long())
		t.release(t.resume(t.b, g, t.long()))
		t.free(t.b, g.key, "after the release of a lease, of which the answer to a Resume was lost")
	}
}

func resumeCountsFromSending(t *trial) {
	c, link := t.linked()
	for _, shared := range t.modes() {
		t.usable(c)
		t.resumeCountsFrom(c, link, t.getterOf(shared)(t.a, t.newKey(), t.long()))
	}
}

// resumeCountsFrom resumes g by c, whose link delays the reply.
func (t *trial) resumeCountsFrom(c backend.Backend, link Link, g *grant) {
	link.Delay(FromStore, lateBy)
	resumed, err := t.resumeBy(c, g, t.long())
	link.Heal()
	if err != nil {
		t.fatalf("Resume of a live lease on a slow link: %v", err)
	}
	sent := resumed.after.Add(-lateBy) // at the latest
	if late := resumed.Deadline().Sub(backend.Deadline(sent, t.kept(t.g.Round(t.long())))); late > 0 &&
		!t.deadlineSlides(resumed) {
		t.fatalf("the deadline is %v later than the TTL allows, of a request that was sent %v before its answer came", late,
			lateBy)
	}
	t.heldBy(resumed)
}

func lateResumeRevivesNothing(t *trial) {
	const cases = 2 // the key is free, or has a new holder
	modes := t.modes()
	t.inChunks(cases*len(modes), 2, func(i int) {
		c, link := t.linked()
		t.usable(c)
		g := t.getterOf(modes[i/cases])(t.a, t.newKey(), t.short())
		r := backend.Request{Key: g.key, Owner: g.owner, TTL: t.long(), Shared: g.shared}
		link.Hold(ToStore)
		late := t.call(func() error {
			_, err := c.(backend.Resumer).Resume(t.ctx, r)
			return err
		})
		t.outlast(t.lastRefusal(g.after, g.ttl))
		var next *grant
		if i%cases == 1 {
			next = t.acquire(t.b, g.key, t.long())
		}
		link.Heal()
		if err := late.ends(t, 2*recovery, "Resume that came late to the store"); err == nil {
			t.fatalf("Resume that reached the store when the lease had ended succeeded")
		}
		t.usable(c) // these requests queue behind the Resume
		time.Sleep(lateBy)
		if next == nil {
			t.mustBeFree(t.b, g.key, "after a Resume that came to the store when the lease had ended")
			return
		}
		t.describes(next, t.long())
		t.heldBy(next)
	})
}

func leaseOfDeadProcessIsResumed(t *trial) {
	modes := t.modes()
	t.inChunks(2*len(modes), 2, func(i int) {
		p, key, shared := t.process(0), t.newKey(), modes[i/2]
		var r *remote
		if shared {
			r = t.remoteRead(p, key, t.short())
		} else {
			r = t.remoteHold(p, key, t.short())
		}
		if i%2 == 0 {
			p.Kill()
		} else {
			p.Freeze()
		}
		resumed, err := t.resumeBy(t.a, &grant{key: key, owner: r.owner, shared: shared}, t.long())
		if errors.Is(err, backend.ErrLost) && !time.Now().Before(r.until()) {
			t.tooLate("a lease ended before it was resumed")
		}
		if err != nil {
			t.fatalf("Resume of the lease of a process that does not run: %v", err)
		}
		if resumed.Token() != r.answer.Token {
			t.fatalf("the resumed lease has token %d, the process was granted token %d", resumed.Token(), r.answer.Token)
		}
		t.outlast(t.lastRefusal(r.after, r.ttl))
		t.heldBy(resumed)
		if i%2 == 1 {
			p.Thaw()
			t.isLost(p.Release(t.ctx, r.owner), "Release by a thawed process, whose deadline has passed")
			t.heldBy(resumed)
		}
		t.release(resumed)
		t.becomesFree(t.b, key, t.handOff(), "after the release of a resumed lease")
	})
}
