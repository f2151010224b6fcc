package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var secondRenewalChecks = []Check{
	{
		Name: "CancelledSecondRenewal",
		Rule: "Lease.Renew is limited by its own context, also while another Renew of the lease gets no reply, for which " +
			"no method waits that makes no request; the lease lives on",
		Needs: []Need{needsLinked},
		run:   cancelledSecondRenewal,
	},
}

// cancelledSecondRenewal cancels a Renew that began while another was under way.
func cancelledSecondRenewal(t *trial) {
	const (
		first    = 50 * time.Millisecond
		prompt   = 500 * time.Millisecond // below a second, after which the other may fail with the store's own error
		patience = 100 * time.Millisecond // shorter than the store's own timeouts
	)
	c, link := t.linked()
	t.usable(c)
	held := t.acquire(c, t.newKey(), t.long())
	link.Hold(FromStore)
	ctx, cancel := context.WithCancel(t.ctx)
	begun := time.Now()
	other := t.call(func() error { return held.Renew(ctx, t.long()) })
	time.Sleep(first)
	local := t.call(func() error { t.makesNoRequest(c, held); return nil })
	renewals := []struct {
		with func() (context.Context, context.CancelFunc)
		want error
	}{
		{func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.ctx, patience) },
			context.DeadlineExceeded},
		{func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.ctx)
			time.AfterFunc(patience, cancel)
			return ctx, cancel
		}, context.Canceled},
	}
	t.together(len(renewals), func(i int) {
		r := renewals[i]
		ctx, cancel := r.with()
		defer cancel()
		second := t.call(func() error { return held.Renew(ctx, t.long()) })
		err := second.ends(t, soon, "Renew whose context ended while another was under way")
		waited := time.Since(begun)
		switch {
		case waited > first+patience+prompt:
			t.tooLate("Renew whose context ended while another was under way has returned after %v: %v", waited, err)
		case errors.Is(err, r.want), t.excused(held, err):
		case waited > first+patience+stall && errors.Is(err, backend.ErrUnavailable):
			t.tooLate("Renew whose context ended while another was under way, after %v: %v", waited, err)
		default:
			t.fatalf("Renew whose context ended while another was under way: %v, want %v", err, r.want)
		}
	})
	if !t.within(time.Second, local.done) && !t.within(0, other.done) {
		t.fatalf("Guarantees, NotReady, Deadline, Token, Lost or OnLost has not returned while a renewal gets no reply")
	}
	cancel()
	_ = other.ends(t, soon, "Renew whose context was cancelled")
	link.Heal()
	t.usable(c)
	if !t.poll(recovery, func() bool { return held.Release(t.ctx) == nil }) && !held.gone() {
		t.fatalf("Release of a live lease does not succeed after renewals that were cancelled")
	}
	t.becomesFree(t.b, held.key, recovery, "after the release of a lease whose renewals were cancelled")
}

// makesNoRequest calls the methods of c and its lease g that only report what the client knows.
func (t *trial) makesNoRequest(c backend.Backend, g *grant) {
	_ = c.Guarantees()
	if ready, ok := c.(backend.Readiness); ok {
		_ = ready.NotReady()
	}
	_, _, _ = g.Deadline(), g.Token(), g.Lost()
	if notifier, ok := g.Lease.(backend.LossNotifier); ok {
		notifier.OnLost(func() {})
	}
}
