package locktests

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/pair"
)

// After Close, the methods of every store return ErrClosed, whether its servers are running or not.
func TestEveryMethodSaysClosed(t *testing.T) {
	for _, name := range append([]string{"memory", "pair"}, servers.SharedStores...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, list := openStore(t, name)
			r := backend.Request{Key: "k", Owner: backend.NewOwner(), TTL: time.Minute}
			l, err := b.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			checkClosed(t, "with its servers", b, l)
			for _, s := range list {
				s.Kill()
			}
			checkClosed(t, "without its servers", b, l)
		})
	}
}

func openStore(t *testing.T, name string) (backend.Backend, []*servers.Server) {
	var url string
	var list []*servers.Server
	switch name {
	case "memory":
		url = "memory:"
	case "pair":
		url = pair.URL("memory:", "file://"+t.TempDir(), 0)
	default:
		url, list = servers.Store(t, name)
	}
	b, _, err := driver.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return b, list
}

// A call that is under way when Close begins also returns ErrClosed, even if no server replies.
func TestCallsUnderWaySayClosed(t *testing.T) {
	for _, name := range append([]string{"pair"}, servers.SharedStores...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, list := openStore(t, name)
			l, err := b.Acquire(t.Context(), backend.Request{Key: "k", Owner: backend.NewOwner(), TTL: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			var callers, called sync.WaitGroup
			for method, call := range methods(b, l) {
				if method == "Renew" || method == "Release" || method == "RenewBatch" {
					continue // the conformance suite checks these
				}
				called.Add(1)
				once := sync.OnceFunc(called.Done)
				callers.Go(func() { // repeats the call until Close
					for {
						err := call(t.Context())
						once()
						switch {
						case errors.Is(err, backend.ErrClosed):
							return
						case err != nil && !errors.Is(err, backend.ErrLost) && !errors.Is(err, backend.ErrHeld):
							t.Errorf("%s: %v, want ErrClosed", method, err)
							return
						}
					}
				})
			}
			called.Wait()
			for _, s := range list {
				s.Freeze()
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			callers.Wait()
		})
	}
}

// methods returns a call of each method of b and l that makes a request. No call waits for the key k.
func methods(b backend.Backend, l backend.Lease) map[string]func(ctx context.Context) error {
	all := map[string]func(ctx context.Context) error{
		"Acquire": func(ctx context.Context) error {
			_, err := b.Acquire(ctx, backend.Request{Key: "k", Owner: backend.NewOwner(), TTL: time.Minute})
			return err
		},
		"Inspect": func(ctx context.Context) error { _, err := b.Inspect(ctx, "k"); return err },
		"Renew":   func(ctx context.Context) error { return l.Renew(ctx, time.Minute) },
		"Release": l.Release,
	}
	if b, ok := b.(backend.BatchRenewer); ok {
		all["RenewBatch"] = func(ctx context.Context) error {
			return b.RenewBatch(ctx, []backend.Renewal{{Lease: l, TTL: time.Minute}})[0]
		}
	}
	if b, ok := b.(backend.Resumer); ok {
		all["Resume"] = func(ctx context.Context) error {
			_, err := b.Resume(ctx, backend.Request{Key: "k", Owner: "owner", TTL: time.Minute})
			return err
		}
	}
	if b, ok := b.(backend.Lister); ok {
		all["List"] = func(ctx context.Context) error { _, err := b.List(ctx, ""); return err }
	}
	if b, ok := b.(backend.Breaker); ok {
		all["Break"] = func(ctx context.Context) error { return b.Break(ctx, "k", "owner") }
	}
	if b, ok := b.(backend.Examiner); ok {
		all["Examine"] = func(ctx context.Context) error { _, err := b.Examine(ctx); return err }
	}
	if b, ok := b.(backend.Capacity); ok {
		all["Capacity"] = func(ctx context.Context) error { _, err := b.Capacity(ctx); return err }
	}
	return all
}

// checkClosed checks that the methods of b and l return ErrClosed, and that a second Close succeeds.
func checkClosed(t *testing.T, when string, b backend.Backend, l backend.Lease) {
	t.Helper()
	for method, call := range methods(b, l) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		begun := time.Now()
		if err := call(ctx); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("%s: %s after %v: %v, want ErrClosed", when, method, time.Since(begun).Round(time.Millisecond), err)
		}
		cancel()
	}
	waiting := backend.Request{Key: "other", Owner: backend.NewOwner(), TTL: time.Minute, Wait: true}
	if _, err := b.Acquire(t.Context(), waiting); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("%s: an Acquire that waits: %v, want ErrClosed", when, err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("%s: a second Close: %v", when, err)
	}
}
