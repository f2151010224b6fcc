package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// A recorder is a Tracer that records every call.
type recorder struct {
	mu       sync.Mutex
	started  []lock.AcquireStart
	acquired []lock.AcquireEnd
	renewed  []lock.RenewalEnd
	ended    []lock.LeaseEnd
}

type recorderKey struct{}

func (r *recorder) TraceAcquireStart(ctx context.Context, s lock.AcquireStart) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, s)
	return context.WithValue(ctx, recorderKey{}, len(r.started))
}

func (r *recorder) TraceAcquireEnd(ctx context.Context, e lock.AcquireEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, _ := ctx.Value(recorderKey{}).(int); n < 1 || r.started[n-1] != e.AcquireStart {
		panic("the end of another acquisition's start")
	}
	r.acquired = append(r.acquired, e)
}

func (r *recorder) TraceRenewal(e lock.RenewalEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewed = append(r.renewed, e)
}

func (r *recorder) TraceLeaseEnd(_ context.Context, e lock.LeaseEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, e)
}

// outcomes returns the outcomes of the acquisitions that have ended, in order.
func (r *recorder) outcomes() (all []lock.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.acquired {
		all = append(all, e.Outcome)
	}
	return all
}

func (r *recorder) renewals() []lock.RenewalEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.renewed)
}

func (r *recorder) ends() []lock.LeaseEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ended)
}

func (r *recorder) latest() lock.AcquireEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquired[len(r.acquired)-1]
}

func TestTracerIsToldOfAcquisitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTracer(r), lock.WithTTL(ttl), lock.WithPrefix("p/"))
		last := acquire(t, l, "k")
		next := queue(t, l, 1)
		release(t, last)
		release(t, <-next)
		first := acquire(t, l, "k")
		if e := r.latest(); e.Key != "p/k" || e.Backend == "" || e.TTL != ttl || !e.Wait || e.Owner != first.Owner() ||
			e.Token != first.Token() || e.Err != nil {
			t.Errorf("granted: %+v", e)
		}
		again, err := l.Acquire(first.Context(t.Context()), "k", lock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		release(t, again)
		_, err = l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrHeld)
		if e := r.latest(); e.Err != err || e.Wait || e.Owner != "" {
			t.Errorf("refused: %+v, want the error %v", e, err)
		}
		_, err = l.Acquire(t.Context(), "k", lock.WithWait(3*time.Second))
		wantErr(t, err, lock.ErrHeld)
		if e := r.latest(); e.Waited < 3*time.Second || e.Waited > 4*time.Second {
			t.Errorf("waited %v, want 3 s", e.Waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = l.Acquire(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		cancel()
		_, err = l.Acquire(ctx, "other")
		wantErr(t, err, context.DeadlineExceeded)
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		_, err = l.Acquire(ctx, "other")
		wantErr(t, err, context.Canceled)
		_, err = l.Acquire(first.Context(t.Context()), "k")
		wantErr(t, err, lock.ErrDeadlock)
		_, err = l.Acquire(t.Context(), "")
		wantErr(t, err, lock.ErrInvalid)
		release(t, first)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		_, err = l.Acquire(t.Context(), "other")
		wantErr(t, err, lock.ErrClosed)
		want := []lock.Outcome{
			lock.OutcomeGranted, lock.OutcomeHandedOn, lock.OutcomeGranted, lock.OutcomeReentered, lock.OutcomeHeld,
			lock.OutcomeTimeout, lock.OutcomeTimeout, lock.OutcomeTimeout,
			lock.OutcomeCanceled, lock.OutcomeError, lock.OutcomeError, lock.OutcomeClosed,
		}
		if got := r.outcomes(); !slices.Equal(got, want) {
			t.Errorf("outcomes %v, want %v", got, want)
		}
		if len(r.started) != len(r.acquired) {
			t.Errorf("%d acquisitions began, %d ended", len(r.started), len(r.acquired))
		}
	})
}

func TestTracerIsToldHowLeasesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTracer(r), lock.WithTTL(ttl))
		lease := acquire(t, l, "released")
		time.Sleep(time.Minute)
		release(t, lease)
		release(t, lease)
		outlived, err := l.Acquire(t.Context(), "lost", lock.WithoutRenewal())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * ttl)
		wantErr(t, outlived.Release(t.Context()), lock.ErrLost)
		left := acquire(t, l, "closed")
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, left.Release(t.Context()), lock.ErrClosed)
		ended := r.ends()
		if len(ended) != 3 {
			t.Fatalf("%d leases ended, want 3: %+v", len(ended), ended)
		}
		if e := ended[0]; e.Key != "released" || e.Owner != lease.Owner() || e.Token != lease.Token() ||
			e.Held != time.Minute || e.Lost || e.Err != nil {
			t.Errorf("%+v", e)
		}
		if e := ended[1]; e.Key != "lost" || e.Held < ttl-time.Second || e.Held > ttl || !e.Lost ||
			!errors.Is(e.Err, lock.ErrLost) {
			t.Errorf("%+v", e)
		}
		if e := ended[2]; e.Key != "closed" || !e.Lost || !errors.Is(e.Err, lock.ErrClosed) {
			t.Errorf("%+v", e)
		}
	})
}

// If the store panics, the caller gets that panic, and the Tracer gets the end of the acquisition.
func TestTracerIsToldOfPanics(t *testing.T) {
	r := &recorder{}
	f := newFaulty(memory.New())
	l := locker(t, f, lock.WithTracer(r))
	f.set(func() { f.acquire = func(context.Context, backend.Request) error { panic("boom") } })
	defer func() {
		if got := recover(); got != "boom" {
			t.Errorf("the caller gets the panic %v", got)
		}
		if got := r.outcomes(); !slices.Equal(got, []lock.Outcome{lock.OutcomeError}) {
			t.Errorf("outcomes %v, want one error", got)
		}
	}()
	_, _ = l.TryAcquire(t.Context(), "k")
}

// If a release has an unknown outcome and is repeated, the Tracer gets the end of the lease only once.
func TestTracerIsToldOfUnknownRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTracer(r), lock.WithTTL(ttl))
		lease := acquire(t, l, "k")
		broken := errors.New("broken")
		f.set(func() { f.release = func(context.Context) error { return broken } })
		wantErr(t, lease.Release(t.Context()), broken)
		wantErr(t, lease.Release(t.Context()), broken)
		if e := r.ends(); len(e) != 1 || e[0].Lost || !errors.Is(e[0].Err, broken) {
			t.Errorf("%+v, want one end with the error", e)
		}
		f.set(func() { f.release = nil })
		release(t, lease)
	})
}

func TestTracerIsToldOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTracer(r), lock.WithTTL(ttl))
		lease := acquire(t, l, "k")
		time.Sleep(3 * ttl)
		before := r.renewals()
		n := len(before)
		if n < 6 || n > 12 {
			t.Errorf("%d renewals in three TTLs", n)
		}
		for _, e := range before {
			if e.Key != "k" || e.Owner != lease.Owner() || e.Backend == "" || e.Late != 0 || e.Err != nil {
				t.Errorf("%+v", e)
			}
		}
		f.set(func() { f.renew = hang })
		time.Sleep(2 * ttl)
		after := r.renewals()[n:]
		longest := time.Duration(0)
		for _, e := range after {
			if e.Err == nil {
				t.Errorf("a renewal that hangs: %+v", e)
			}
			longest = max(longest, e.Took)
		}
		if len(after) == 0 || longest < ttl/9 {
			t.Errorf("%d renewals that hang, the longest for %v", len(after), longest)
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
	})
}

// A renewal that ends after the release of its lease is not reported as failed.
func TestTracerIsNotToldOfOvertakenRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		l := locker(t, slowBatches{memory.New()}, lock.WithTracer(r), lock.WithTTL(3*time.Second))
		for range 20 { // renewals begin within a second, and take half a second
			lease := acquire(t, l, "k")
			time.Sleep(1100 * time.Millisecond)
			release(t, lease)
		}
		time.Sleep(time.Second)
		for _, e := range r.renewals() {
			if e.Err != nil {
				t.Errorf("%+v", e)
			}
		}
	})
}

// A slowRecorder takes 200 ms to record each renewal.
type slowRecorder struct{ recorder }

func (r *slowRecorder) TraceRenewal(e lock.RenewalEnd) {
	time.Sleep(200 * time.Millisecond) // sleeps: a slow Tracer; in fake time
	r.recorder.TraceRenewal(e)
}

// While one worker reports a failed batch to the Tracer, other workers renew its leases again. This test is for the
// race detector.
func TestTracerIsToldWhileRenewalGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &brokenBatches{Backend: memory.New()}
		store.failures.Store(5)
		r := &slowRecorder{}
		l := locker(t, store, lock.WithTracer(r), lock.WithTTL(time.Second))
		leases := []*lock.Lease{acquire(t, l, "1"), acquire(t, l, "2")}
		time.Sleep(3 * time.Second)
		for _, lease := range leases {
			release(t, lease)
		}
		time.Sleep(time.Second)
		failed := 0
		for _, e := range r.renewals() {
			if e.Late != 0 {
				t.Errorf("%+v", e)
			}
			if e.Err != nil {
				failed++
			}
		}
		if failed < 5 {
			t.Errorf("notified of %d renewals that failed", failed)
		}
	})
}

// If a renewal has to wait for other renewals, the Tracer gets how late it began.
func TestTracerIsToldOfLateRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, slow = 200, 500 * time.Millisecond
		r := &recorder{}
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTracer(r), lock.WithTTL(ttl))
		f.set(func() {
			f.renew = func(context.Context) error {
				time.Sleep(slow)
				return nil
			}
		})
		var leases []*lock.Lease
		for i := range n {
			leases = append(leases, acquire(t, l, fmt.Sprint(i)))
		}
		time.Sleep(ttl)
		late := time.Duration(0)
		for _, e := range r.renewals() {
			if late = max(late, e.Late); e.Took < slow || e.Took > 2*slow {
				t.Errorf("took %v, want %v", e.Took, slow)
			}
		}
		if late <= 0 || late > ttl/2 {
			t.Errorf("the latest was late by %v", late)
		}
		for _, lease := range leases {
			release(t, lease)
		}
	})
}
