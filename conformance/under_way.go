package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var underWayChecks = []Check{
	{
		Name: "CancelledUnderWay",
		Rule: "rule 4: a call whose request is under way returns promptly when its context is cancelled, not only at its " +
			"deadline, with context.Canceled; nothing stays behind, and its answer is never taken for that of a later call",
		Needs: []Need{needsLinked},
		run:   cancelledUnderWay,
	},
	{
		Name: "CancelledReleaseUnderWay",
		Rule: "Lease.Release whose context ends while its request is under way, and is then lost, or while its client " +
			"cannot connect, still frees the key long before the TTL",
		Needs: []Need{needsLinked},
		run:   cancelledReleaseUnderWay,
	},
}

func cancelledReleaseUnderWay(t *trial) {
	blocks := []func(Link){func(l Link) { l.Drop(ToStore) }, Link.Refuse}
	t.inChunks(len(blocks), 1, func(i int) { t.releasesCutOff(blocks[i]) })
}

// releasesCutOff releases a lease of a client whose link block has cut off for a moment.
func (t *trial) releasesCutOff(block func(Link)) {
	const (
		bound    = 15 * time.Second // as in FrozenReleaseIsBounded
		patience = 100 * time.Millisecond
	)
	c, link := t.linked()
	t.usable(c)
	g := t.acquire(c, t.newKey(), t.long())
	block(link)
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	release := t.call(func() error { return g.Release(ctx) })
	time.Sleep(2 * patience)
	link.Heal() // breaks the connection that has lost the request
	if err := release.ends(t, bound, "Release by a client that was cut off"); t.excused(g, err) {
		return
	}
	t.becomesFree(t.b, g.key, recovery, "after a Release whose context ended while its client was cut off")
}

// A method is a call that is made with a context that ends.
type method struct {
	name  string
	do    func(ctx context.Context) error
	lease *grant // that was acquired for this method alone, nil if none was
}

// methods returns all calls that honour their context, and the keys that they may leave behind.
func (t *trial) methods(c backend.Backend, held *grant) (all []method, keys []string) {
	keys = []string{t.newKey(), t.newKey()}
	all = []method{
		{name: "Acquire", do: func(ctx context.Context) error {
			_, err := t.requestKey(ctx, c, keys[0], t.long(), false)
			return err
		}},
		{name: "Acquire with Wait", do: func(ctx context.Context) error {
			_, err := t.requestKey(ctx, c, keys[1], t.long(), true)
			return err
		}},
		{name: "Renew", do: func(ctx context.Context) error { return held.Renew(ctx, t.long()) }},
		{name: "Inspect", do: func(ctx context.Context) error { _, err := c.Inspect(ctx, held.key); return err }},
	}
	if b, ok := c.(backend.Lister); ok {
		all = append(all, method{name: "List",
			do: func(ctx context.Context) error { _, err := b.List(ctx, held.key); return err }})
	}
	if b, ok := c.(backend.Breaker); ok { // of a lease that does not exist
		all = append(all, method{name: "Break",
			do: func(ctx context.Context) error { return b.Break(ctx, held.key, backend.NewOwner()) }})
	}
	if b, ok := c.(backend.Resumer); ok { // of a lease that does not exist
		all = append(all, method{name: "Resume", do: func(ctx context.Context) error {
			_, err := b.Resume(ctx, backend.Request{Key: held.key, Owner: backend.NewOwner(), TTL: t.long()})
			return err
		}})
	}
	if b, ok := c.(backend.BatchRenewer); ok {
		other := t.acquire(c, t.newKey(), t.long()) // a lease is renewed by one call at a time
		renewals := []backend.Renewal{{Lease: other.Lease, TTL: t.long()}}
		all = append(all, method{"RenewBatch",
			func(ctx context.Context) error { return b.RenewBatch(ctx, renewals)[0] }, other})
	}
	return all, keys
}

// cancelsUnderWay calls all methods at once, while the store cannot reply, and cancels their contexts.
func (t *trial) cancelsUnderWay(all []method, held *grant) {
	const patience = 150 * time.Millisecond // enough to send the request, and shorter than the store's own timeouts
	t.together(len(all), func(i int) {
		ctx, cancel := context.WithCancelCause(t.ctx)
		begun := time.Now()
		under := t.call(func() error { return all[i].do(ctx) })
		time.Sleep(patience)
		waited := time.Since(begun)
		cancel(errors.New("a cause, which a context's error does not stand for"))
		what := all[i].name + " whose context was cancelled while its request was under way"
		if err := under.ends(t, soon, what); !errors.Is(err, context.Canceled) && !t.excused(held, err) {
			if waited > patience+stall && errors.Is(err, backend.ErrUnavailable) {
				t.tooLate("%s after %v: %v", what, waited, err)
			}
			t.breaks(4, "%s: %v, want context.Canceled", what, err)
		}
	})
}

func cancelledUnderWay(t *trial) {
	for _, hold := range []Direction{FromStore, ToStore} {
		c, link := t.linked()
		t.usable(c)
		held := t.acquire(c, t.newKey(), t.long())
		for range 2 { // the answers of the first calls must not be taken for those of the second
			all, keys := t.methods(c, held)
			link.Hold(hold)
			t.cancelsUnderWay(all, held)
			link.Heal()
			t.usable(c)
			for _, key := range keys {
				t.becomesFree(t.b, key, recovery, "after an attempt that was cancelled while its request was under way")
			}
			for _, m := range all { // so that the client has room for those of the second round
				if m.lease != nil {
					_ = m.lease.Release(t.ctx) // may be ErrLost: Guarantees.EarlyLoss
				}
			}
		}
		if t.g.EarlyLoss == "" {
			t.heldBy(held)
		}
		t.getsOwnAnswers(c)
	}
}

// getsOwnAnswers fails if client c takes the answer to one request for that to another.
func (t *trial) getsOwnAnswers(c backend.Backend) {
	for range 2 {
		g := t.acquire(t.a, t.newKey(), t.long())
		if h := t.inspectBy(c, g.key); h.Owner != g.owner && g.live(time.Now()) {
			t.breaksText(inspectRule, "Inspect by a client whose earlier calls were cancelled says that %q holds a key, want %q",
				h.Owner, g.owner)
		}
		t.refused(c, g)
		own := t.acquire(c, t.newKey(), t.long())
		t.describes(own, t.long())
		t.release(own)
		t.release(g)
	}
}
