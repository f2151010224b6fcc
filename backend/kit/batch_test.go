package kit

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// answers returns a batch request that is answered after d, with these errors in order.
func answers(
	d time.Duration, errs ...error,
) func(context.Context, []*Life, []time.Duration) ([]time.Duration, []error) {
	return func(_ context.Context, _ []*Life, ttls []time.Duration) ([]time.Duration, []error) {
		time.Sleep(d) // sleeps: in fake time, unless d is 0
		return ttls, errs
	}
}

func TestRenewBatchOfAllSorts(t *testing.T) {
	bubble(t, &fakeStore{renew: hang}, func(t *testing.T, s *Leases) {
		other := NewLeases(new(fakeStore), time.Second)
		defer other.Close()
		busy := grant(t, s, time.Minute)
		go func() { _ = busy.Renew(t.Context(), time.Minute) }()
		time.Sleep(1500 * time.Millisecond)
		good, gone, silent := grant(t, s, 10*time.Second), grant(t, s, 10*time.Second), grant(t, s, 10*time.Second)
		released := grant(t, s, 10*time.Second)
		wantErr(t, "release", released.Release(t.Context()), nil)

		batch := []backend.Renewal{
			{Lease: released, TTL: time.Minute}, {Lease: good, TTL: 20 * time.Second},
			{Lease: grant(t, other, time.Minute), TTL: time.Minute},
			{Lease: gone, TTL: time.Minute}, {Lease: busy, TTL: time.Minute}, {Lease: good, TTL: time.Minute},
			{Lease: silent, TTL: time.Minute}, {Lease: good, TTL: -1},
		}
		var sent []*Life
		errs := s.RenewBatch(t.Context(), batch, func(ctx context.Context, lives []*Life,
			ttls []time.Duration) ([]time.Duration, []error) {
			sent = slices.Clone(lives)
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != life(10*time.Second) {
				t.Errorf("the request may take %v", time.Until(d))
			}
			if want := []time.Duration{20 * time.Second, time.Minute, time.Minute}; !slices.Equal(ttls, want) {
				t.Errorf("sent %v, want %v", ttls, want)
			}
			time.Sleep(time.Second)
			return []time.Duration{25 * time.Second, 0, 0}, []error{nil, backend.ErrLost, errNet}
		})
		if !slices.Equal(sent, []*Life{good, gone, silent}) {
			t.Errorf("sent %d leases", len(sent))
		}
		for i, want := range []error{backend.ErrLost, nil, backend.ErrInvalid, backend.ErrLost, backend.ErrUnavailable,
			backend.ErrUnavailable, errNet, backend.ErrInvalid} {
			wantErr(t, "renewal", errs[i], want)
		}
		if text := errs[4].Error(); !strings.Contains(text, "no answer for 1.5s") {
			t.Errorf("%q does not say for how long there has been no answer", text)
		}
		wantLeft(t, good, life(25*time.Second)-time.Second)
		wantLeft(t, silent, life(10*time.Second)-time.Second)
		if !isLost(gone) {
			t.Error("the one that is gone is not lost")
		}
	})
}

func TestRenewBatchOfNothing(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Second)
		<-l.Lost()
		errs := s.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: time.Minute}}, nil) // no request
		wantErr(t, "renewal", errs[0], backend.ErrLost)
		if errs := s.RenewBatch(t.Context(), nil, nil); len(errs) != 0 {
			t.Errorf("%v", errs)
		}
	})
}

// A batch request may last beyond the earliest deadline of its leases. The lease with that deadline is still lost in
// time.
func TestRenewBatchThatHangs(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		start := time.Now()
		short, long := grant(t, s, time.Second), grant(t, s, time.Minute)
		var lostAt atomic.Int64
		short.OnLost(func() { lostAt.Store(int64(time.Since(start))) })
		errs := s.RenewBatch(t.Context(), []backend.Renewal{{Lease: short, TTL: time.Minute},
			{Lease: long, TTL: time.Minute}}, hungBatch)
		wantErr(t, "short", errs[0], backend.ErrLost)
		wantErr(t, "long", errs[1], backend.ErrLost)
		if got := time.Duration(lostAt.Load()); got != life(time.Second) {
			t.Errorf("lost after %v", got)
		}
		if got := time.Since(start); got != life(time.Minute) {
			t.Errorf("the request is ended after %v", got)
		}
	})
}

// If a store ignores its context and answers late, the leases that it has extended are released, without delay for the
// caller, if their holders have called Release. The others are not: since the loss, another process may have resumed
// them.
func TestRenewBatchThatIsLate(t *testing.T) {
	f := &fakeStore{release: after(requestTimeout, nil)}
	bubble(t, f, func(t *testing.T, s *Leases) {
		var batch []backend.Renewal
		for range 100 {
			batch = append(batch, backend.Renewal{Lease: grant(t, s, time.Second), TTL: time.Minute})
		}
		start := time.Now()
		time.AfterFunc(2*time.Second, func() {
			for _, r := range batch[:60] {
				wantErr(t, "release", r.Lease.Release(t.Context()), backend.ErrLost)
			}
		})
		errs := s.RenewBatch(t.Context(), batch, answers(5*time.Second, make([]error, len(batch))...))
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("took %v", got)
		}
		for _, err := range errs {
			wantErr(t, "renewal", err, backend.ErrLost)
		}
		time.Sleep(200 * time.Second)
		if n := f.releases.Load(); n != 60 {
			t.Errorf("%d given back, want those whose holders have called Release", n)
		}
		for _, r := range batch[60:] {
			wantErr(t, "release", r.Lease.Release(t.Context()), backend.ErrLost)
		}
		if n := f.releases.Load(); n != 100 {
			t.Errorf("%d given back after all releases", n)
		}
	})
}

func TestRenewBatchWithFewAnswers(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		a, b := grant(t, s, 10*time.Second), grant(t, s, 10*time.Second)
		errs := s.RenewBatch(t.Context(), []backend.Renewal{{Lease: a, TTL: time.Minute}, {Lease: b, TTL: time.Minute}},
			answers(0, nil))
		wantErr(t, "answered", errs[0], nil)
		wantErr(t, "not answered", errs[1], errUnanswered)
		wantLeft(t, b, life(10*time.Second))
	})
}

func TestRenewBatchWithEndedContext(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		l := grant(t, s, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, "renewal", s.RenewBatch(ctx, []backend.Renewal{{Lease: l, TTL: time.Minute}}, nil)[0], context.Canceled)
	})
}
