package conformance

import (
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// A prelude is what happens to a key while a writer waits for readers that die. Both functions may be nil.
type prelude struct {
	what string
	// queue starts another waiter before the writer comes. leave ends that wait when the writer has come.
	queue func(key string) (leave func())
	// longest ends g, the lease that would end last, or shortens it to ttl. It returns the lease that is left, or nil.
	longest func(g *grant, ttl time.Duration) *grant
}

// preludes returns events that may make a store forget the readers that are left.
func (t *trial) preludes() []prelude {
	all := []prelude{
		{what: "another writer was cancelled", queue: func(key string) func() {
			w := t.wait(t.a, key, t.long())
			return func() { w.cancel(); t.eitherOr(w) }
		}},
		{what: "the time of another writer was up", queue: func(key string) func() {
			limit := newTimeLimit(t.ctx)
			w := t.waitWith(limit, t.b, key, t.long())
			return func() { limit.passes(); t.timedOutOr(w) }
		}},
		{what: "the reader that would have ended last released", longest: func(g *grant, _ time.Duration) *grant {
			t.release(g)
			return nil
		}},
	}
	shortens := func(what string, shorten func(g *grant, ttl time.Duration) *grant) {
		all = append(all, prelude{what: "the reader that would have ended last was shortened by " + what,
			longest: func(g *grant, ttl time.Duration) *grant {
				left := shorten(g, ttl)
				return &grant{Lease: left.Lease, client: left.client, key: g.key, owner: g.owner, ttl: ttl,
					before: left.before, after: time.Now(), shared: true}
			}})
	}
	for _, way := range t.renewals() {
		shortens(way.what, func(g *grant, ttl time.Duration) *grant {
			t.renewBy(g, ttl, func() error { return way.renew(t.ctx, g, ttl) })
			return g
		})
	}
	if _, ok := t.a.(backend.Resumer); ok {
		shortens("Resume", func(g *grant, ttl time.Duration) *grant { return t.resume(t.other(g.client), g, ttl) })
	}
	if breaker, ok := t.a.(backend.Breaker); ok {
		all = append(all, prelude{what: "the lease of the reader that would have ended last was broken",
			longest: func(g *grant, _ time.Duration) *grant {
				t.mustBreak(breaker, g)
				return nil
			}})
	}
	return all
}

// timedOutOr checks the outcome of an Acquire whose time is up: a lease, which it releases, or the context's error.
func (t *trial) timedOutOr(w *waiting) {
	if !t.within(soon, w.done) {
		t.fatalf("an Acquire whose time was up has not returned within %v", soon)
	}
	if w.err == nil {
		t.release(w.grant)
		return
	}
	w.unavailable(t)
	t.endsByDeadline(w.err, "Acquire")
}

// writerOutwaitsPrelude lets two or three readers of a key die while a writer waits for them. In between, p happens. No
// request for the key follows that could make the store notice the end of the readers.
func (t *trial) writerOutwaitsPrelude(p prelude, i int) {
	const most = 2 * time.Second // a waiter that polls may ask the store once a second
	key := t.newKey()
	// still live when two waiters have come
	brief := t.g.Round(t.awaited() + 2*t.h.ArrivalDelay*time.Duration(t.stretch))
	longer := func(quarters time.Duration) time.Duration { return min(t.g.Round(brief*quarters/4), t.longest()) }
	var readers []*grant
	var longest *grant
	for j, ttl := range []time.Duration{brief, longer(5)} {
		if p.longest != nil && i%2 == j { // the first reader or the second
			longest = t.read(t.client(i/2), key, t.long())
		}
		readers = append(readers, t.read(t.client(j), key, ttl))
	}
	queued, leave := 1, func() {}
	if p.queue != nil {
		leave = p.queue(key)
		t.arrived(key, queued)
		queued++
	}
	w := t.wait(t.client(i), key, t.long())
	t.arrived(key, queued)
	leave()
	if longest != nil {
		if left := p.longest(longest, longer(6)); left != nil {
			readers = append(readers, left)
		}
	}
	last := slices.MaxFunc(readers, func(x, y *grant) int { return x.Deadline().Compare(y.Deadline()) })
	if late := t.lateness(last, w, last.after); late > most {
		t.notInTime(t.rule, "a writer has the key of dead readers %v later than it was free, after %s while it waited",
			late.Round(tick), p.what)
	}
	t.becomesFree(t.b, key, t.handOff(), "after the writer's release")
}
