package conformance_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// A clinging is a client whose Close does not return if hangs returns true.
type clinging struct {
	*client
	hangs func() bool
}

func (c clinging) Close() error {
	if c.hangs() {
		<-c.server.stop
	}
	return c.client.Close()
}

// If a client cannot be closed, Execute reports an error before the first check.
func TestHangingCloseIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		hangs := func() bool { return true }
		open := func(context.Context) (backend.Backend, error) { return clinging{newClient(s), hangs}, nil }
		results, err := conformance.Execute(t.Context(), conformance.Harness{Open: open}, conformance.Options{})
		if results != nil || err == nil || !strings.Contains(err.Error(), "close: not returned after") {
			t.Errorf("%d results, error %v", len(results), err)
		}
	})
}

// TestHangingStoreIsReported makes a store hang from the second check on, as if the store had not recovered from a
// restart. The remaining checks are not run.
func TestHangingStoreIsReported(t *testing.T) {
	for what, test := range map[string]struct {
		open func(ctx context.Context, s *server, down func() bool) (backend.Backend, error)
		want string
	}{
		"Open until its context ends": {func(ctx context.Context, s *server, down func() bool) (backend.Backend, error) {
			if down() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return newClient(s), nil
		}, "no client can be opened any more: no client within"},
		"Open for ever": {func(_ context.Context, s *server, down func() bool) (backend.Backend, error) {
			if down() {
				<-s.stop
				return nil, backend.ErrUnavailable
			}
			return newClient(s), nil
		}, "no client can be opened any more: no client within"},
		"Close": {func(_ context.Context, s *server, down func() bool) (backend.Backend, error) {
			return clinging{newClient(s), down}, nil
		}, "a client cannot be closed any more: not returned after"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer("")
				defer func() {
					close(s.stop)
					time.Sleep(time.Hour) // until abandoned goroutines have ended
				}()
				var down atomic.Bool
				open := func(ctx context.Context) (backend.Backend, error) { return test.open(ctx, s, down.Load) }
				results, err := conformance.Execute(t.Context(), conformance.Harness{Open: open}, conformance.Options{
					Parallel: 1, Timeout: time.Minute,
					Began: func(c conformance.Check) { down.Store(c.Name != "ClientsShareStore") },
				})
				if err != nil {
					t.Fatal(err)
				}
				failed, notRun := 0, 0
				for _, r := range results {
					switch {
					case r.Status == conformance.Fail:
						failed++
					case r.Interrupted && strings.Contains(r.Output, test.want):
						notRun++
					}
				}
				if failed != 1 || notRun < 50 {
					t.Errorf("%d checks failed, %d were not run because %s", failed, notRun, test.want)
				}
			})
		})
	}
}
