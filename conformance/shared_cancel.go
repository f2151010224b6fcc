package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

func cancelledReaderLeavesNothing(t *trial) {
	typical, keys := t.typical(), &raced{t: t}
	end := time.Now().Add(raceTime / 2)
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	t.inChunks(6, 4, func(i int) {
		client := t.client(i)
		for n := range t.rounds(12, end) {
			key := keys.fresh()
			var held *grant
			var others []*grant
			if n%3 == 0 { // it is granted the key at once, beside another reader
				others = append(others, t.read(t.b, key, t.long()))
				r := backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long(), Wait: i%2 == 0, Shared: true}
				if _, err := t.request(ended, client, r); !errors.Is(err, context.Canceled) {
					t.fatalf("shared Acquire with an ended context: %v, want context.Canceled", err)
				}
			} else {
				held = t.acquire(t.a, key, t.long())
			}
			limit := newTimeLimit(t.ctx)
			w := t.waitToReadWith(limit, client, key, t.long())
			var beside, behind *waiting
			var released chan struct{}
			timedOut := false
			if held != nil {
				switch n % 3 {
				case 1: // cancelled in the queue, or out of time
					t.arrived(key, 1)
					if i%2 == 1 {
						limit.passes()
						t.endsByDeadline(w.fails(t, "shared Acquire whose time was up"), "shared Acquire whose time was up")
						timedOut = true
						break
					}
					w.cancelAndFail(t)
				case 2: // cancelled at its turn, which others wait for
					t.arrived(key, 1)
					beside = t.waitToRead(t.client(i/2), key, t.long())
					behind = t.wait(t.client(n), key, t.long())
					t.arrived(key, 3)
				}
				time.Sleep(rand.N(4 * typical))
				released = make(chan struct{})
				t.spawn(func() { defer close(released); t.release(held) })
			}
			cancelSoon(w.cancel, 2*typical)
			if !timedOut {
				t.eitherOr(w)
			}
			if released != nil {
				<-released
			}
			if beside != nil {
				t.othersHaveTurns(beside, behind)
			}
			for _, g := range others {
				t.refused(t.a, g)
				t.release(g)
			}
			t.becomesFree(t.b, key, time.Second+t.g.MaxLate, "after a cancelled shared Acquire")
		}
	})
	keys.stayFree()
}

// othersHaveTurns expects a reader and a writer to be granted the key when a reader before them was cancelled.
func (t *trial) othersHaveTurns(reader, writer *waiting) {
	waits := []*waiting{reader, writer}
	first := t.firstOf(waits, t.handOff(), "after a reader that was cancelled at its turn")
	g, count := waits[first].grant, 0
	if g.shared && !t.poll(t.handOff(), func() bool { count = t.inspect(g.key).Shared; return count == 1 }) {
		t.breaksText(inspectRule, "Inspect counts %d shared leases long after one of two readers was cancelled", count)
	}
	t.release(g)
	t.release(waits[1-first].granted(t, t.handOff(), "after a reader that was cancelled at its turn, and the next one"))
}
