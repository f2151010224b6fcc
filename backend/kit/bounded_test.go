package kit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

func TestBounded(t *testing.T) {
	type key struct{}
	start := func(parent context.Context) (*bounded, context.CancelFunc) {
		base, end := context.WithCancel(context.Background())
		return &bounded{parent: parent, leases: &Leases{base: base, began: time.Now()}, until: time.Second}, end
	}
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "v"))
		c, end := start(parent)
		defer end()
		cancel()
		if d, ok := c.Deadline(); !ok || time.Until(d) != time.Second {
			t.Errorf("deadline %v, %v", d, ok)
		}
		if c.Err() != nil || c.Value(key{}) != "v" {
			t.Errorf("after its caller's end: error %v, value %v", c.Err(), c.Value(key{}))
		}
		child, cancelChild := context.WithCancel(c)
		defer cancelChild()
		begun := time.Now()
		<-child.Done()
		if took := time.Since(begun); took != time.Second || !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("ended after %v: %v", took, c.Err())
		}
		c.cancel()

		c, end = start(context.Background())
		child, cancelChild = context.WithCancel(c)
		defer cancelChild()
		end()
		synctest.Wait()
		if !errors.Is(child.Err(), context.Canceled) {
			t.Errorf("after the end of its base: %v", child.Err())
		}
		c.cancel()

		c, end = start(context.Background())
		asked := 0
		for begun := time.Now(); c.Err() == nil; asked++ { // a caller that only calls Err also sees the end
			if time.Since(begun) > 2*time.Second {
				t.Fatal("it does not end")
			}
			time.Sleep(300 * time.Millisecond)
		}
		if asked != 4 {
			t.Errorf("ended when asked %d times", asked)
		}
		c.cancel()
		end()

		c, end = start(context.Background())
		end()
		for range 2 {
			if err := c.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("asked after the end of its base: %v", err)
			}
		}
		c.cancel()

		c, end = start(context.WithValue(parent, key{}, "v"))
		defer end()
		if c.Value(key{}) != "v" || context.Cause(c) != nil { // no value shows the end of the parent
			t.Errorf("value %v, cause %v", c.Value(key{}), context.Cause(c))
		}
		if c.inner.Load() != nil {
			t.Error("set up for a value")
		}
		c.cancel()

		c, end = start(context.Background())
		defer end()
		for range 2 {
			c.cancel() // there is no underlying context
			if !errors.Is(c.Err(), context.Canceled) {
				t.Error(c.Err())
			}
		}
	})
}

// A time limit of the store itself is ErrUnavailable, never the error of a context: the caller's context has not ended,
// or does not bound the release.
func TestOwnLimitsAreUnavailable(t *testing.T) {
	for _, end := range []error{context.DeadlineExceeded, context.Canceled,
		fmt.Errorf("dial: %w", context.DeadlineExceeded)} {
		for _, waits := range []bool{false, true} {
			f := &fakeStore{}
			bubble(t, f, func(t *testing.T, s *Leases) {
				answer := func(ctx context.Context) error {
					if waits {
						<-ctx.Done()
					}
					return end
				}
				f.renew, f.release = answer, answer
				check := func(what string, err error) {
					t.Helper()
					if !errors.Is(err, backend.ErrUnavailable) || IsContextError(err) {
						t.Errorf("%s, %v: %v, want ErrUnavailable", what, end, err)
					}
				}
				l := grant(t, s, time.Minute)
				err := l.Renew(t.Context(), time.Minute)
				check("renew", err)
				if lost := errors.Is(err, backend.ErrLost); lost != waits { // the request has waited until the deadline
					t.Errorf("renew: %v: lost is %v", err, lost)
				}
				l = grant(t, s, time.Minute)
				for _, err := range s.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: time.Minute}},
					func(ctx context.Context, lives []*Life, ttls []time.Duration) ([]time.Duration, []error) {
						return ttls, []error{answer(ctx)}
					}) {
					check("batch", err)
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				l = grant(t, s, time.Minute)
				if err := l.Renew(ended, time.Minute); !errors.Is(err, context.Canceled) || errors.Is(err, backend.ErrUnavailable) {
					t.Errorf("renew under an ended context: %v", err)
				}
				check("release", l.Release(ended))
			})
		}
	}
}
