package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// busyChecks test whether the error of a failed Acquire distinguishes a busy key from an unknown outcome.
var busyChecks = []Check{
	{
		Name: "EndedWaitReportsBusy",
		Rule: "Backend.Acquire that waits, and whose context ends after the store has said that the key is busy, " +
			"matches ErrHeld too",
		run: endedWaitReportsBusy,
	},
	{
		Name: "OwnLimitIsUnavailable",
		Rule: "a time limit of the store itself that runs out is ErrUnavailable, and not the error of a context that " +
			"has not ended",
		Needs: []Need{needsLinked},
		run:   ownLimitIsUnavailable,
	},
}

func endedWaitReportsBusy(t *trial) {
	clients := []backend.Backend{t.a, t.b}
	queues := []int{0, 1, 5} // how many waiters queue first, whose contexts do not end
	if t.g.Shared {
		queues = append(queues, 1) // a writer, for a key that a reader holds
	}
	t.inChunks(len(queues)*2*len(clients), 6, func(i int) {
		i, before, beside := i/len(queues), queues[i%len(queues)], i%len(queues) == 3
		g := t.getterOf(beside)(t.a, t.newKey(), t.long())
		var first []*waiting
		for n := range before {
			first = append(first, t.wait(t.client(n), g.key, t.long()))
			t.arrived(g.key, n+1)
		}
		ctx, want, deadline := t.ctx, context.Canceled, time.Now().Add(time.Second*time.Duration(t.stretch))
		if i/2 == 1 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(t.ctx, deadline)
			defer cancel()
			want = context.DeadlineExceeded
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		w := t.begin(ctx, clients[i%2], backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
			Shared: t.g.Shared && before == 5 || beside})
		if t.confirmQueued(g.key, before+1); want == context.Canceled {
			cancel(errors.New("a cause, which a context's error does not stand for"))
		} else if time.Now().After(deadline) {
			t.tooLate("a wait ended before it could be known that the store had been asked")
		}
		if want == context.DeadlineExceeded {
			select {
			case <-ctx.Done(): // if TTLs are stretched, the deadline may be later than fails waits
			case <-w.done:
			}
		}
		err := w.fails(t, "Acquire of a held key whose context ended")
		if !errors.Is(err, want) {
			t.fatalf("Acquire of a held key whose context ended: %v, want %v", err, want)
		}
		if !errors.Is(err, backend.ErrHeld) {
			if t.inspect(g.key).Waiters < 0 { // it is unknown whether the store got the request in time
				t.tooLate("Acquire of a held key whose context ended: %v", err)
			}
			t.fatalf("Acquire of a held key whose context ended: %v, which does not match ErrHeld although the store "+
				"had said that "+
				"the key is busy", err)
		}
		for _, w := range first {
			w.cancelAndFail(t)
		}
		t.queueAtMostOf(g.key, 0)
		t.release(g)
	})
}

// notBusy fails if err matches ErrHeld although its Acquire got no reply.
func (t *trial) notBusy(err error, when string) {
	if errors.Is(err, backend.ErrHeld) {
		t.fatalf("Acquire of a free key %s: %v, which matches ErrHeld although the store has said nothing", when, err)
	}
}

// ownLimitIsUnavailable checks errors only. It does not require that calls return before their context ends.
func ownLimitIsUnavailable(t *trial) {
	const patience = 15 * time.Second
	c, link := t.linked()
	t.usable(c)
	g := t.acquire(c, t.newKey(), t.long())
	all, free := t.methods(c, g)
	partition(link, ToStore, FromStore)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	var calls []*call
	for _, m := range all {
		calls = append(calls, t.call(func() error { return m.do(ctx) }))
	}
	end := time.Now().Add(patience)
	for i, call := range calls {
		what := all[i].name
		if !t.within(time.Until(end), call.done) {
			t.notef("%s has no limit of its own, or one of more than %v", what, patience)
			continue
		}
		switch err := call.err; {
		case err == nil:
			t.fatalf("%s succeeded while its client was cut off", what)
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			t.fatalf("%s while cut off: %v, which matches a context's error although no context has ended", what, err)
		case errors.Is(err, backend.ErrHeld):
			t.fatalf("%s while cut off: %v, although the store has said nothing of the key", what, err)
		case strings.HasPrefix(what, "Renew") && errors.Is(err, backend.ErrLost): // the lease has expired
		case !errors.Is(err, backend.ErrUnavailable):
			t.fatalf("%s while cut off: %v, want ErrUnavailable", what, err)
		}
	}
	cancel()
	for i, call := range calls {
		_ = call.ends(t, soon, all[i].name+" whose context ended while cut off")
	}
	link.Heal()
	t.usable(c)
	for _, key := range free {
		t.becomesFree(t.b, key, recovery, "after an Acquire that ran out of time while cut off")
	}
}
