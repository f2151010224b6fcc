package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// The store ends a lease exactly when its TTL runs out, even if the holder has closed its client.
func TestStoreEnforcesTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		dead, other := client(t, s), client(t, s)
		l := mustTry(t, dead, "k", time.Minute)
		dead.Close() // the holder loses the lease, but the store keeps it
		<-l.Lost()

		time.Sleep(time.Minute - time.Nanosecond)
		var held *backend.HeldError
		if _, err := try(other, "k", time.Minute); !errors.As(err, &held) || held.Holder.TTL != 1 {
			t.Fatalf("a nanosecond before the end: %v, want held for 1ns", err)
		}
		time.Sleep(time.Nanosecond)
		if l2 := mustTry(t, other, "k", time.Minute); l2.Token() <= l.Token() {
			t.Errorf("token %d after %d", l2.Token(), l.Token())
		}
	})
}

// The next waiter gets the key when the TTL runs out, even if no client makes a request then.
func TestExpiryWakesWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		a, b := client(t, s), client(t, s)
		start := time.Now()
		first := mustTry(t, a, "k", 10*time.Second)
		mustTry(t, a, "other", time.Hour) // neither a later nor an earlier expiry hides the expiry of k
		mustTry(t, a, "third", time.Second)
		l, err := b.Acquire(t.Context(), request("k", 20*time.Second, true))
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("granted after %v, want 10s", got)
		}
		if got, want := l.Deadline(), backend.Deadline(time.Now(), 20*time.Second); !got.Equal(want) {
			t.Errorf("deadline %v, want %v: the TTL counts from the grant", got, want)
		}
		if err := first.Renew(t.Context(), time.Hour); !errors.Is(err, backend.ErrLost) {
			t.Errorf("renew of the expired lease: %v", err)
		}
		if err := first.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
			t.Errorf("release of the expired lease: %v", err)
		}
		if h, _ := a.Inspect(t.Context(), "k"); h.Token != l.Token() || h.TTL != 20*time.Second {
			t.Errorf("the stale holder's calls changed the new one's lease: %+v", h)
		}
	})
}

func TestRenewMovesExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		a, b := client(t, s), client(t, s)
		l := mustTry(t, a, "k", 10*time.Second)
		time.Sleep(5 * time.Second)
		if errs := a.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: 30 * time.Second}}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		time.Sleep(29 * time.Second)
		if _, err := try(b, "k", time.Second); !errors.Is(err, backend.ErrHeld) {
			t.Fatalf("renewed lease: %v, want held", err)
		}
		if err := l.Renew(t.Context(), time.Second); err != nil { // shorter than the remaining TTL
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		mustTry(t, b, "k", time.Second)
		<-l.Lost()
		if errs := a.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: time.Second}}); !errors.Is(errs[0],
			backend.ErrLost) {
			t.Errorf("batched renewal of an expired lease: %v", errs[0])
		}
	})
}

// Expired leases are removed without a request: after 10 000 leases have expired, the store keeps no keys.
func TestExpiredKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		b := client(t, s)
		for i := range 10_000 {
			mustTry(t, b, string(rune(i+1)), time.Duration(i%100+10)*time.Millisecond)
		}
		time.Sleep(110 * time.Millisecond)
		if n := s.Len(); n != 0 {
			t.Errorf("%d keys left after every TTL has ended", n)
		}
	})
}
