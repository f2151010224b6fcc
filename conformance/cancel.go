package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var cancelChecks = []Check{
	{
		Name: "CancelledBefore",
		Rule: "rule 4: an Acquire whose context has ended fails with the context's error and leaves nothing behind",
		run:  cancelledBefore,
	},
	{
		Name: "CancelledWhileWaiting",
		Rule: "rule 4: a waiting Acquire returns promptly with the context's error, but not before the context has ended, " +
			"and leaves nothing behind",
		run: cancelledWhileWaiting,
	},
	{
		Name: "CancelRacesGrant",
		Rule: "rule 4: a cancellation that meets the grant gives either the lease or the context's error, then a free key",
		run:  cancelRacesGrant,
	},
	{
		Name: "CancelRacesAttempt",
		Rule: "rule 4: a cancelled attempt gives either the lease or the context's error, and then a free key",
		run:  cancelRacesAttempt,
	},
	{
		Name: "CancelledWaiterDelaysNextBriefly",
		Rule: "rule 9: a waiter that is cancelled delays the next one for a bounded time, and costs it no place",
		run:  cancelledWaiterDelaysNextBriefly,
	},
	{
		Name: "CancelledAfterGrant",
		Rule: "Backend.Acquire: the context ends the wait, not the lease, and its deadline is not that of the lease; the " +
			"context of a renewal, a Resume or of opening the client ends nothing later",
		run: cancelledAfterGrant,
	},
	{
		Name: "CancelledReleaseReleases",
		Rule: "Lease.Release is sent even when its context has ended",
		run:  cancelledReleaseReleases,
	},
}

func cancelledBefore(t *trial) {
	cancelled, cancel := context.WithCancel(t.ctx)
	cancel()
	past, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Second))
	defer cancel()
	ended := []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {past, context.DeadlineExceeded}}
	for _, e := range ended {
		for _, wait := range []bool{false, true} {
			g, err := t.requestKey(e.ctx, t.a, t.key, t.long(), wait)
			if g != nil || !errors.Is(err, e.want) {
				t.fatalf("Acquire with an ended context: lease %v, error %v, want %v", g != nil, err, e.want)
			}
			t.notBusy(err, "with an ended context")
			t.staysFree(t.key, "after an Acquire with an ended context")
			t.free(t.b, t.key, "after an Acquire with an ended context")
			t.free(t.a, t.key, "after an Acquire with an ended context")
		}
	}
	held := t.acquire(t.b, t.key, t.long())
	for _, e := range ended {
		if g, err := t.requestKey(e.ctx, t.a, t.key, t.long(), true); g != nil || !errors.Is(err, e.want) {
			t.fatalf("waiting Acquire with an ended context: lease %v, error %v, want %v", g != nil, err, e.want)
		}
	}
	t.heldBy(held)
	t.release(held)
	t.becomesFree(t.b, t.key, t.handOff(), "after waits with ended contexts")
}

func cancelledWhileWaiting(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	for _, client := range []backend.Backend{t.a, t.b} {
		w := t.wait(client, t.key, t.long())
		t.arrived(t.key, 1)
		w.cancelAndFail(t)

		ctx, cancel := context.WithTimeout(t.ctx, t.short()/4)
		defer cancel()
		w = t.waitWith(ctx, client, t.key, t.long())
		if err := w.fails(t, "Acquire with a timeout"); !errors.Is(err, context.DeadlineExceeded) {
			t.fatalf("Acquire with a timeout: %v, want context.DeadlineExceeded", err)
		}
	}
	t.heldBy(g)
	t.release(g)
	t.becomesFree(t.b, t.key, time.Second+t.g.MaxLate, "after release, with cancelled waiters before")
	(&raced{t: t, keys: []string{t.key}}).stayFree()
	t.waitsUntilDeadlines()
}

// typical returns the duration of a request, for races that aim at a moment within a request.
func (t *trial) typical() time.Duration {
	return min(max(t.usual(), 20*time.Microsecond), 20*time.Millisecond)
}

// usual returns the median duration of a few requests.
func (t *trial) usual() time.Duration {
	const samples = 5
	var took []time.Duration
	for range samples {
		g := t.acquire(t.a, t.newKey(), t.long())
		took = append(took, g.after.Sub(g.before))
		t.release(g)
	}
	slices.Sort(took)
	return took[samples/2]
}

// cancelSoon calls cancel at a random moment of a request that usually takes typical.
func cancelSoon(cancel context.CancelFunc, typical time.Duration) {
	if rand.N(2) == 0 {
		time.Sleep(rand.N(3 * typical / 2))
	} else {
		for range rand.N(50) { // a local store answers sooner than a timer fires
			runtime.Gosched()
		}
	}
	cancel()
}

// eitherOr checks the outcome of a cancelled Acquire: it must be a lease, which eitherOr releases, or the context's
// error.
func (t *trial) eitherOr(w *waiting) { t.eitherOrErr(w, context.Canceled) }

// eitherOrErr is eitherOr for a context that ends with want.
func (t *trial) eitherOrErr(w *waiting, want error) {
	if !t.within(soon, w.done) {
		t.fatalf("an Acquire whose context has ended has not returned within %v", soon)
	}
	switch {
	case w.err == nil:
		t.release(w.grant)
	case !errors.Is(w.err, want):
		w.unavailable(t)
		t.fatalf("an Acquire whose context has ended: %v, want %v", w.err, want)
	}
}

const (
	raceWorkers = 8
	raceRounds  = 25
	raceTime    = 5 * time.Second // slow stores make fewer rounds
)

// raced holds keys for which a request was cancelled. Each key is used for one race only, because an abandoned request
// may reach the store later and hold the key for a moment.
type raced struct {
	t    *trial
	mu   sync.Mutex
	keys []string
}

func (r *raced) fresh() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, r.t.newKey())
	return r.keys[len(r.keys)-1]
}

// stayFree fails unless all keys are free after abandoned requests have arrived and have been cleaned up.
func (r *raced) stayFree() {
	time.Sleep(r.t.h.ArrivalDelay)
	for _, key := range r.keys {
		r.t.becomesFree(r.t.b, key, time.Second+r.t.g.MaxLate, "some time after a cancellation")
	}
}

// stayHeld acquires some of the keys, and fails unless the leases outlive the cleanups of the cancelled requests.
// Cleanups run in the background and are repeated.
func (r *raced) stayHeld() {
	const most, awhile = 16, time.Second
	t := r.t
	keys := r.keys[len(r.keys)-min(most, t.h.Many, len(r.keys)):]
	t.inTurns(len(keys), func(i int) {
		w := t.wait(t.b, keys[i], t.long())
		g := w.granted(t, time.Second+t.handOff(), "some time after a cancellation")
		t.refusedFor(t.a, g, awhile)
		t.heldBy(g)
		t.release(g)
	})
}

func cancelRacesGrant(t *trial) {
	typical, keys := t.typical(), &raced{t: t}
	end := time.Now().Add(raceTime)
	t.inChunks(raceWorkers, 2, func(i int) {
		client := t.client(i)
		for round := range t.rounds(raceRounds, end) {
			key := keys.fresh()
			g := t.acquire(t.a, key, t.long())
			if round%3 == 2 {
				t.timesOutAtGrant(client, g, typical)
				continue
			}
			w := t.wait(client, key, t.long())
			time.Sleep(rand.N(4 * typical)) // in most rounds, the waiter has arrived
			released := make(chan struct{})
			if round%4 == 1 { // the waiter may find both when it wakes up
				t.release(g)
				close(released)
				w.cancel()
			} else {
				t.spawn(func() { defer close(released); t.release(g) })
				cancelSoon(w.cancel, 2*typical)
			}
			t.eitherOr(w)
			<-released
			t.becomesFree(t.b, key, time.Second+t.g.MaxLate, "after a cancellation that met the grant")
		}
	})
	t.grantsMeetCancellation(keys)
	keys.stayFree()
}

// timesOutAtGrant releases g at about the moment at which the context of a waiter for its key ends.
func (t *trial) timesOutAtGrant(client backend.Backend, g *grant, typical time.Duration) {
	ctx, cancel := context.WithTimeout(t.ctx, 6*typical)
	defer cancel()
	deadline, _ := ctx.Deadline()
	w := t.waitWith(ctx, client, g.key, t.long())
	time.Sleep(time.Until(deadline) - rand.N(2*typical)) // sleeps: in most rounds, the waiter has arrived
	t.release(g)
	t.eitherOrErr(w, context.DeadlineExceeded)
	t.becomesFree(t.b, g.key, time.Second+t.g.MaxLate, "after a deadline that met the grant")
}

func cancelRacesAttempt(t *trial) {
	typical, keys := t.typical(), &raced{t: t}
	end := time.Now().Add(raceTime)
	t.inChunks(raceWorkers, 2, func(i int) {
		for round := range t.rounds(raceRounds, end) {
			key := keys.fresh()
			r := backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long(), Wait: round%2 == 0}
			if round%3 == 2 {
				t.timesOutSoon(r, typical)
			} else {
				w := t.begin(t.ctx, t.a, r)
				cancelSoon(w.cancel, typical)
				t.eitherOr(w)
			}
			b := t.client(round / 2) // the attempt's own client, too
			t.becomesFree(b, key, time.Second+t.g.MaxLate, "after a cancelled attempt")
		}
	})
	keys.stayHeld()
	keys.stayFree()
}

// timesOutSoon makes a request of client a with a context whose deadline is at a random moment of a request that
// usually takes typical.
func (t *trial) timesOutSoon(r backend.Request, typical time.Duration) {
	ctx, cancel := context.WithTimeout(t.ctx, 1+rand.N(3*typical/2))
	defer cancel()
	t.eitherOrErr(t.begin(ctx, t.a, r), context.DeadlineExceeded)
}

func cancelledWaiterDelaysNextBriefly(t *trial) {
	t.inChunks(4, 2, func(i int) {
		for round := range 5 {
			key := t.newKey() // a cancelled request may still arrive for the previous key
			g := t.acquire(t.a, key, t.long())
			first := t.wait(t.a, key, t.long())
			t.arrived(key, 1)
			next := t.wait(t.b, key, t.long())
			t.arrived(key, 2)
			if round%2 == 0 {
				first.cancelAndFail(t)
				if t.within(20*tick, next.done) && next.err == nil && g.live(next.grant.after) {
					t.doubleGrant("a waiter was granted the held key when the one before it was cancelled")
				}
				t.release(g)
			} else {
				t.release(g)
				first.cancel()
				t.eitherOr(first)
			}
			t.release(next.granted(t, t.handOff(), "after the waiter before it was cancelled"))
		}
	})
	if t.g.FIFO {
		t.cancelledAtTurn()
	}
}

// cancelledAtTurn cancels waiters at about the moment of their turn. Those behind them have their turns in order.
func (t *trial) cancelledAtTurn() {
	const rounds, atMost = 20, 3 * time.Second
	typical, end := t.typical(), time.Now().Add(atMost)
	t.inChunks(4, 3, func(int) {
		for range t.rounds(rounds, end) {
			g := t.acquire(t.a, t.newKey(), t.long())
			waits := t.queue(g, 3)
			released := t.call(func() error { t.release(g); return nil })
			cancelSoon(waits[0].cancel, 2*typical)
			t.eitherOr(waits[0])
			<-released.done
			t.release(t.inTurn(waits[1:], t.handOff(), "after release, with a waiter before it that was cancelled at "+
				"its turn"))
		}
	})
}

func cancelledReleaseReleases(t *trial) {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	for range 5 {
		g := t.acquire(t.a, t.key, t.long())
		begun := time.Now()
		err := g.Release(ctx)
		t.lateOnTimeout(err, begun)
		if err != nil {
			t.fatalf("Release with an ended context: %v", err)
		}
		t.free(t.b, t.key, "after a Release with an ended context")
	}
}

// refusedCleanUpSparesHolder cancels attempts on a held key while they are under way.
func refusedCleanUpSparesHolder(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	typical := t.typical()
	end := time.Now().Add(raceTime)
	t.together(4, func(i int) {
		client := t.client(i)
		for range t.rounds(60, end) {
			ctx, cancel := context.WithCancel(t.ctx)
			cancelled, begun := make(chan struct{}), time.Now()
			go func() { defer close(cancelled); cancelSoon(cancel, typical) }()
			other, err := t.requestKey(ctx, client, t.key, t.long(), false)
			<-cancelled
			if other != nil || !errors.Is(err, backend.ErrHeld) && !errors.Is(err, context.Canceled) {
				if errors.Is(err, backend.ErrUnavailable) {
					t.lateOnTimeout(err, begun)
				}
				t.fatalf("Acquire of a held key: lease %v, error %v, want ErrHeld or the context's", other != nil, err)
			}
		}
	})
	// Cleanups run in the background and are repeated.
	t.refusedFor(t.b, g, time.Second)
	t.heldBy(g)
	t.renew(g, t.long())
	t.release(g)
}
