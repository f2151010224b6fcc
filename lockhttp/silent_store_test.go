package lockhttp_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/lockhttp"
)

// wrappedMemory is a client of a store in memory that returns its leases wrapped.
type wrappedMemory struct {
	sharedMemory
	wrap func(backend.Lease) backend.Lease
}

func (b wrappedMemory) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := b.sharedMemory.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return b.wrap(l), nil
}

// A releaseSilent is a lease whose release gets no reply, while silent is true.
type releaseSilent struct {
	backend.Lease
	silent *atomic.Bool
}

func (l releaseSilent) Release(ctx context.Context) error {
	if l.silent.Load() {
		return backend.ErrUnavailable
	}
	return l.Lease.Release(ctx)
}

// openSilent returns a function that opens a client whose releases get no reply, while silent is true.
func (w *world) openSilent(silent *atomic.Bool) func() backend.Backend {
	return func() backend.Backend {
		wrap := func(l backend.Lease) backend.Lease { return releaseSilent{l, silent} }
		return wrappedMemory{sharedMemory{w.store.Client()}, wrap}
	}
}

// A release without a reply can be repeated. If nobody does, the claim and its streams end with the lease.
func TestReleaseWithoutReply(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.stop()
		var silent atomic.Bool
		w.open = w.openSilent(&silent)
		w.start()
		for _, key := range []string{"repeated", "left"} {
			w.want(200, "PUT", of(key, "owner", "a", "ttl_ms", "10000"), "")
		}
		left := w.events(path("left", "/watch", "owner", "a"))
		silent.Store(true)
		w.want(503, "DELETE", of("repeated", "owner", "a"), "")
		w.want(503, "DELETE", of("left", "owner", "a"), "")
		silent.Store(false)
		w.want(204, "DELETE", of("repeated", "owner", "a"), "")
		time.Sleep(11 * time.Second) // sleeps: until the lease has run out, in fake time
		synctest.Wait()
		if _, leases, watchers, claims, _ := w.server.InUse(); leases != 0 || watchers != 0 || claims != 0 {
			t.Fatalf("%d leases, %d streams and %d claims are left", leases, watchers, claims)
		}
		if got := <-left; !slices.Equal(got, []string{"held", "released"}) {
			t.Errorf("the stream: %q", got)
		}
		if metrics := w.want(200, "GET", "/metrics", "").text; !strings.Contains(metrics, "anylock_leases 0\n") {
			t.Error(metrics)
		}
	})
}

// A release that meets the grant of its lease reports success only once the store has confirmed the release.
func TestReleaseMeetsGrant(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.stop()
		var silent atomic.Bool
		w.open = func() backend.Backend {
			wrap := func(l backend.Lease) backend.Lease {
				time.Sleep(time.Second) // sleeps: how long the reply is on its way, in fake time
				return releaseSilent{l, &silent}
			}
			return wrappedMemory{sharedMemory{w.store.Client()}, wrap}
		}
		w.start()
		waited := make(chan answer, 1)
		go func() {
			a, err := w.try(context.Background(), "PUT", of("k", "owner", "a", "ttl_ms", "600000"), "")
			if err != nil {
				t.Error(err)
			}
			waited <- a
		}()
		synctest.Wait()
		silent.Store(true)
		w.want(503, "DELETE", of("k", "owner", "a"), "")
		if a := <-waited; a.code != 409 {
			t.Errorf("the acquisition: %d %s", a.code, a.text)
		}
		silent.Store(false)
		w.want(204, "DELETE", of("k", "owner", "a"), "")
		if a := w.want(200, "GET", of("k"), ""); a.body.Held {
			t.Errorf("released, and %s", a.text)
		}
	})
}

// A slowRenewal is a lease whose renewal takes five seconds.
type slowRenewal struct{ backend.Lease }

func (l slowRenewal) Renew(ctx context.Context, ttl time.Duration) error {
	select {
	case <-time.After(5 * time.Second):
		return l.Lease.Renew(ctx, ttl)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowRenewals starts the server anew, on a store whose renewals are slow.
func (w *world) slowRenewals() {
	w.stop()
	w.open = func() backend.Backend {
		wrap := func(l backend.Lease) backend.Lease { return slowRenewal{l} }
		return wrappedMemory{sharedMemory{w.store.Client()}, wrap}
	}
	w.start()
}

// A lease that no reply has reached a client with is released soon, also if a further request for it has ended without
// a reply.
func TestRepeatedRequestWithoutReply(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.slowRenewals()
		giveUp := func(after time.Duration, method, target string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), after)
			defer cancel()
			if a, err := w.try(ctx, method, target, ""); err == nil {
				t.Errorf("%s %s: %d %s", method, target, a.code, a.text)
			}
		}
		put := func(key string) string {
			return of(key, "owner", "a", "wait_ms", "60000", "ttl_ms", "600000")
		}
		for key, again := range map[string][2]string{
			"acquired again": {"PUT", put("acquired again")},
			"renewed":        {"POST", path("renewed", "/renew", "owner", "a", "ttl_ms", "600000")},
		} {
			w.want(200, "PUT", of(key, "owner", "holder", "ttl_ms", "1000"), "")
			giveUp(500*time.Millisecond, "PUT", put(key))
			time.Sleep(time.Second) // sleeps: until the lease is granted, in fake time
			giveUp(time.Second, again[0], again[1])
			time.Sleep(10 * time.Second) // sleeps: longer than Options.Linger, in fake time
			if a := w.want(200, "GET", of(key), ""); a.body.Held {
				t.Errorf("%s", a.text)
			}
		}
	})
}

// A lease that no reply has reached a client with is released even if a further request for it ends after Shutdown.
func TestRequestEndsAfterShutdown(t *testing.T) {
	inBubble(t, lockhttp.Options{}, func(w *world) {
		w.slowRenewals()
		put := of("k", "owner", "a", "wait_ms", "60000", "ttl_ms", "600000")
		w.want(200, "PUT", of("k", "owner", "holder", "ttl_ms", "1000"), "")
		first, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if a, err := w.try(first, "PUT", put, ""); err == nil {
			t.Errorf("granted at once: %s", a.text)
		}
		time.Sleep(time.Second) // sleeps: until the lease is granted, in fake time
		second, giveUp := context.WithCancel(context.Background())
		go w.try(second, "PUT", put, "")
		synctest.Wait()
		if err := w.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		giveUp()
		synctest.Wait()
		if held, err := w.locks.Ops().List(context.Background(), ""); err != nil || len(held) > 0 {
			t.Errorf("%d keys are held (%v)", len(held), err)
		}
	})
}
