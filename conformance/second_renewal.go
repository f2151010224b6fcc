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
		Rule: "Lease.Renew is limited by its own context, also while another Renew of the lease gets no reply; the lease " +
			"lives on",
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
	cancel()
	_ = other.ends(t, soon, "Renew whose context was cancelled")
	link.Heal()
	t.usable(c)
	if !t.poll(recovery, func() bool { return held.Release(t.ctx) == nil }) && !held.gone() {
		t.fatalf("Release of a live lease does not succeed after renewals that were cancelled")
	}
	t.becomesFree(t.b, held.key, recovery, "after the release of a lease whose renewals were cancelled")
}
