package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Checks of a store that cannot be reached: dials are refused or get no reply.
var unreachableChecks = []Check{
	{
		Name: "RefusedDialIsUnavailable",
		Rule: "rule 4: while connections are refused, each method returns within its context, with ErrUnavailable or the " +
			"context's error, " +
			"and claims nothing about the key; afterwards the client recovers, and nothing stays behind",
		Needs: []Need{needsLinked},
		run: func(t *trial) {
			t.unreachable("while connections are refused", func(l Link) bool { l.Refuse(); return true })
		},
	},
	{
		Name: "UnansweredDialHonoursContext",
		Rule: "rule 4: while nobody answers a dial, each method returns within its context, with ErrUnavailable or the " +
			"context's error, " +
			"and claims nothing about the key; afterwards the client recovers, and nothing stays behind",
		Needs: []Need{needsLinked},
		run: func(t *trial) {
			t.unreachable("while nobody answers a dial", func(l Link) bool {
				i, ok := l.(IgnoringLink)
				if ok {
					i.Ignore()
				}
				return ok
			})
		},
	},
}

// unreachable calls all methods of a client behind a link that lets no connection through.
func (t *trial) unreachable(when string, block func(Link) bool) {
	const rounds = 2 // the second on a client that has failed to connect
	c, link := t.linked()
	t.usable(c)
	held := t.acquire(c, t.newKey(), t.long())
	all, free := t.methods(c, held)
	busy := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(c, busy.key, t.long())
	t.confirmQueued(busy.key, 1)
	all = append(all, method{name: "Acquire of a held key", do: func(ctx context.Context) error {
		_, err := t.requestKey(ctx, c, busy.key, t.long(), false)
		return err
	}})
	if o, ok := link.(OpeningLink); ok {
		const opens = 12 // so many that a leak of each shows
		for range opens {
			all = append(all, method{name: "Open", do: func(ctx context.Context) error { return t.opens(ctx, o) }})
		}
	}
	for range attemptsUnreached {
		all = append(all, method{name: "Acquire", do: func(ctx context.Context) error {
			_, err := t.requestKey(ctx, c, t.newKey(), t.short(), false)
			return err
		}})
	}
	if !block(link) {
		t.skipf("the link cannot leave dials unanswered (IgnoringLink)")
	}
	before := goroutines(t.label)
	for round := range rounds {
		t.together(len(all), func(i int) {
			patience := 300 * time.Millisecond * time.Duration(round+1)
			ctx, cancel := context.WithTimeout(t.ctx, patience)
			defer cancel()
			what := all[i].name + " " + when
			err := t.call(func() error { return all[i].do(ctx) }).ends(t, patience+soon, what)
			switch {
			case err == nil:
				t.breaks(4, "%s succeeded", what)
			case t.excused(held, err):
			case errors.Is(err, backend.ErrHeld), errors.Is(err, backend.ErrLost), errors.Is(err, backend.ErrClosed),
				errors.Is(err, backend.ErrInvalid):
				t.breaks(4, "%s: %v, although the store has not answered", what, err)
			case !errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
				t.breaks(4, "%s: %v, want ErrUnavailable or the context's error", what, err)
			case errors.Is(err, context.DeadlineExceeded) && !kit.Ended(ctx):
				t.breaks(4, "%s: %v, before its context has ended", what, err)
			}
		})
	}
	w.cancelAndFail(t)
	if !errors.Is(w.err, backend.ErrHeld) {
		t.breaks(4, "a wait that was cancelled %s: %v, which does not match ErrHeld although the store had said that the "+
			"key is busy", when, w.err)
	}
	free = append(free, t.dialsTogether(c, when)...) // last, because they may join a waiter's dial
	link.Heal()
	healed := time.Now()
	t.usable(c)
	for _, key := range free {
		t.becomesFree(t.b, key, recovery, "after an Acquire "+when)
	}
	if !held.gone() {
		t.heldBy(held)
		t.renew(held, t.long())
	}
	t.release(busy)
	// A dial that the kernel retries may succeed now and deliver an Acquire whose caller has returned. The client releases
	// such a lease.
	t.becomesFree(t.b, busy.key, recovery, "after attempts "+when)
	time.Sleep(time.Until(healed.Add(redialled))) // sleeps: a client that dials again may send requests of the past now
	for _, key := range free {
		t.becomesFree(t.b, key, recovery, "after an Acquire "+when+", when its client can connect again")
	}
	const grown = 16 // goroutines of a client's connection pool
	t.waitForGoroutines(before+grown, "after calls "+when)
}

const (
	attemptsUnreached = 12                      // further attempts of each round
	redialled         = 1300 * time.Millisecond // by then, most clients have dialled again
)

// dialsTogether makes attempts of two kinds at once: some have little time, others have more. The end of the time of
// the first does not end the others, which may share a dial with them. It returns the keys of the attempts.
func (t *trial) dialsTogether(c backend.Backend, when string) (keys []string) {
	const brief, long, each = 100 * time.Millisecond, 600 * time.Millisecond, 3
	keys = t.newKeys(2 * each)
	t.together(len(keys), func(i int) {
		patience := brief
		if i >= each {
			time.Sleep(brief / 4) // sleeps: the others dial first
			patience = long
		}
		ctx, cancel := context.WithTimeout(t.ctx, patience)
		defer cancel()
		_, err := t.requestKey(ctx, c, keys[i], t.long(), false)
		if kit.IsContextError(err) && !kit.Ended(ctx) {
			t.breaks(4, "Acquire %s, beside others with less time: %v, before its own context has ended", when, err)
		}
		t.notBusy(err, when)
	})
	return keys
}

// opens opens a client through a link that lets no connection through. A client that connects at its first request
// fails then.
func (t *trial) opens(ctx context.Context, link OpeningLink) error {
	c, err := link.Open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Inspect(ctx, t.newKey())
	return err
}
