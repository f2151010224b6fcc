package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// A failing is a request that must change nothing, and the error that it must return.
type failing struct {
	what string
	do   func() error
	want error // nil for a second Release, which succeeds and does nothing
}

// failedRequestsChangeNothing makes every kind of request that fails, on a key that is held and waited for.
func failedRequestsChangeNothing(t *trial) {
	stale := t.staleLeases()
	held := t.acquire(t.a, t.key, t.long())
	l := t.newLine(t.key)
	for i := range 4 {
		l.join(t.client(i/2), t.long(), false)
	}
	before, deadline := t.inspect(t.key), held.Deadline()
	for range 3 {
		failures := t.failures(held, stale)
		t.together(len(failures), func(i int) {
			f, begun := failures[i], time.Now()
			err := f.do()
			if !errors.Is(err, f.want) {
				t.lateOnTimeout(err, begun)
				t.fatalf("%s: %v, want %v", f.what, err, f.want)
			}
		})
		t.queueAtMost(l.waiting()) // wait until cancelled waiters have been removed
	}
	t.unchanged(held, before, deadline)
	t.refusedFor(t.b, held, t.short()/2) // cleanups run in the background
	t.unchanged(held, before, deadline)
	for _, w := range l.waits {
		w.stillWaits(t, held, t.rule)
	}
	t.release(held)
	if t.g.FIFO {
		l.inOrder(t.handOff() * 2)
	} else {
		l.drained(t.handOff() * 2)
	}
	t.becomesFree(t.b, t.key, t.handOff(), "after requests that failed")
}

// unchanged fails unless the store still describes g as in before, and g still has the given deadline.
func (t *trial) unchanged(g *grant, before backend.Holder, deadline time.Time) {
	now := t.inspect(g.key)
	const rounding = 10 * time.Millisecond // of times that another machine's clock has measured
	switch {
	case now.Owner != before.Owner:
		t.fatalf("after requests that failed: %q holds the key, before %q", now.Owner, before.Owner)
	case now.Token != before.Token:
		t.fatalf("after requests that failed: the token is %d, before %d", now.Token, before.Token)
	case now.Waiters != before.Waiters:
		t.notInTime(t.rule, "after requests that failed: %d wait, before %d", now.Waiters, before.Waiters)
	case now.TTL > before.TTL+rounding+t.g.Granularity && !t.deadlineSlides(g):
		t.fatalf("after requests that failed: the TTL left is %v, before %v", now.TTL, before.TTL)
	case !t.sameDeadline(g, deadline):
		t.fatalf("requests that failed moved the holder's deadline")
	}
}

// staleLeases returns leases on the trial's key that have ended: one that was released, one that has expired and, if
// the harness has Evict, four that the store has dropped without notifying the client.
func (t *trial) staleLeases() (stale []*grant) {
	released := t.acquire(t.b, t.key, t.long())
	t.release(released)
	expired := t.acquire(t.a, t.key, t.short())
	t.expire(expired)
	stale = append(stale, released, expired)
	if t.h.Evict == nil {
		return stale
	}
	// each is used once, because the first failure ends a lease for its client too
	for _, client := range []backend.Backend{t.a, t.b, t.a, t.b} {
		g := t.acquire(client, t.key, t.long())
		if err := t.h.Evict(t.ctx, t.key); err != nil {
			t.fatalf("Evict: %v", err)
		}
		stale = append(stale, g)
	}
	return stale
}

// failures returns requests that must fail while g is held.
func (t *trial) failures(g *grant, stale []*grant) (all []failing) {
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	add := func(want error, what string, do func() error) { all = append(all, failing{what, do, want}) }
	try := func(ctx context.Context, b backend.Backend, r backend.Request) func() error {
		return func() error {
			other, err := t.request(ctx, b, r)
			if other != nil {
				return errors.New("granted")
			}
			return err
		}
	}
	request := func() backend.Request {
		return backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: 2 * t.long()}
	}
	for _, b := range []backend.Backend{t.a, t.b} {
		add(backend.ErrHeld, "attempt at a held key", try(t.ctx, b, request()))
		wait, brief, unnamed := request(), request(), request()
		wait.Wait, brief.TTL, unnamed.Owner = true, 0, ""
		add(context.Canceled, "waiting Acquire with an ended context", try(ended, b, wait))
		add(backend.ErrInvalid, "Acquire for no time", try(t.ctx, b, brief))
		add(backend.ErrInvalid, "Acquire without an owner", try(t.ctx, b, unnamed))
		long := request()
		long.Key += strings.Repeat("x", backend.MaxKeyLen)
		add(backend.ErrInvalid, "Acquire of too long a key", try(t.ctx, b, long))
		add(context.DeadlineExceeded, "waiting Acquire with a timeout", func() error {
			ctx, cancel := context.WithTimeout(t.ctx, t.short()/8)
			defer cancel()
			return try(ctx, b, backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true})()
		})
	}
	add(backend.ErrInvalid, "Renew for no time", func() error { return g.Renew(t.ctx, 0) })
	add(context.Canceled, "Renew with an ended context", func() error { return g.Renew(ended, 2*t.long()) })
	for i, s := range stale {
		what := []string{"released", "expired", "dropped", "dropped", "dropped", "dropped"}[i]
		renew := func() {
			add(backend.ErrLost, "Renew of a lease that was "+what, func() error { return s.Renew(t.ctx, t.long()) })
		}
		release := func(want error) {
			add(want, "Release of a lease that was "+what, func() error { return s.Release(t.ctx) })
		}
		switch {
		case i == 0:
			renew()
			release(nil)
		case i%2 == 0:
			renew()
		default:
			release(backend.ErrLost)
		}
	}
	return all
}
