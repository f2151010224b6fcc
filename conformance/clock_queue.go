package conformance

import (
	"errors"
	"slices"

	"github.com/anylock/lock/backend"
)

var clockQueueChecks = []Check{
	{
		Name: "WrongClockKeepsQueue",
		Rule: "rule 9: neither the place of a waiter nor that of others depends on its wall clock: processes whose " +
			"clocks are two hours apart wait among others, and make attempts meanwhile, and all have their turns, in the " +
			"order of arrival where Guarantees.FIFO",
		Needs: []Need{needsProcess},
		run:   wrongClockKeepsQueue,
	},
}

// A turn is that of a waiter in this process or in another one.
type turn struct {
	who     string
	ended   func() bool
	granted func() // fails unless the key is granted
	release func()
}

func wrongClockKeepsQueue(t *trial) {
	ahead, behind := t.startSkewedProcess(wrongBy), t.startSkewedProcess(-wrongBy)
	held := t.acquire(t.a, t.key, t.long())
	turns := []turn{
		t.localTurn("a waiter", t.b, 1),
		t.remoteTurn("a waiter whose clock is behind", behind, 2),
		t.localTurn("another waiter", t.a, 3),
		t.remoteTurn("a waiter whose clock is ahead", ahead, 4),
	}
	for _, p := range []Process{ahead, behind, ahead} {
		r := t.remotely(p, t.key, t.long(), false)
		if !r.answered(soon) {
			t.tooLate("no answer from another process")
		}
		if err := r.answer.Err; !errors.Is(err, backend.ErrHeld) {
			t.lateOnTimeout(err, r.before)
			t.fatalf("Acquire of a held key by a process with a wrong clock: %v, want ErrHeld", err)
		}
	}
	if turns[0].ended() {
		t.tooLate("a waiter had its turn before the holder's release")
	}
	t.release(held)
	for len(turns) > 0 {
		i := t.nextTurn(turns)
		turns[i].granted()
		if i > 0 && t.g.FIFO {
			t.notInTime(t.rule, "%s was granted the key before %s that had come before", turns[i].who, turns[0].who)
		}
		turns[i].release()
		turns = slices.Delete(turns, i, i+1)
	}
	t.becomesFree(t.b, t.key, t.handOff(), "after the last waiter's release")
}

// nextTurn waits until one of turns has come, and returns its index.
func (t *trial) nextTurn(turns []turn) (next int) {
	if !t.poll(t.handOff(), func() bool {
		next = slices.IndexFunc(turns, func(w turn) bool { return w.ended() })
		return next >= 0
	}) {
		t.notInTime(t.rule, "after a release, none of %d waiters has been granted the key within %v; the first is %s",
			len(turns), t.handOff(), turns[0].who)
	}
	return next
}

// localTurn starts the n-th waiter for the trial's key.
func (t *trial) localTurn(who string, b backend.Backend, n int) turn {
	w := t.wait(b, t.key, t.long())
	t.arrived(t.key, n)
	return turn{
		who:     who,
		ended:   w.ended,
		granted: func() { w.granted(t, tick, "after release") },
		release: func() { t.release(w.grant) },
	}
}

// remoteTurn starts the n-th waiter for the trial's key, in process p.
func (t *trial) remoteTurn(who string, p Process, n int) turn {
	r := t.remoteWait(p, t.key, t.long(), n)
	return turn{
		who:     who,
		ended:   func() bool { return r.answered(0) },
		granted: func() { r.granted(tick, "after release") },
		release: r.release,
	}
}
