package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// The token base is added to the tokens of leases, of Inspect and of refusals.
func TestTokenBase(t *testing.T) {
	const base = 1 << 50
	ctx := context.Background()
	store := memory.NewStore()
	plain, err := lock.New(store.Client())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	based, err := lock.New(store.Client(), lock.WithTokenBase(base))
	if err != nil {
		t.Fatal(err)
	}
	defer based.Close()
	lease, err := based.Acquire(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	want := lease.Token()
	if want>>8 <= base {
		t.Errorf("the lease's number is %d, want more than %d", want>>8, uint64(base))
	}
	if h, err := based.Ops().Inspect(ctx, "key"); err != nil || h.Token != want {
		t.Errorf("Inspect: token %d, %v, want %d", h.Token, err, want)
	}
	if h, err := plain.Ops().Inspect(ctx, "key"); err != nil || h.Token != want-base<<8 {
		t.Errorf("Inspect without the base: token %d, %v, want %d", h.Token, err, want-base<<8)
	}
	other, err := lock.New(store.Client(), lock.WithTokenBase(base))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	held := (*lock.HeldError)(nil)
	if _, err := other.TryAcquire(ctx, "key"); !errors.As(err, &held) || held.Holder.Token != want {
		t.Errorf("TryAcquire: %v, want a refusal with token %d", err, want)
	}
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestTokenBaseOfURL(t *testing.T) {
	ctx := context.Background()
	var config lock.Config
	if err := json.Unmarshal([]byte(`{"url": "memory:", "token_base": 1099511627776}`), &config); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (*lock.Locker, error){
		"URL":    func() (*lock.Locker, error) { return lock.Open(ctx, "memory:?lock_token_base=1099511627776") },
		"Config": func() (*lock.Locker, error) { return config.Open(ctx) },
	} {
		locks, err := open()
		if err != nil {
			t.Fatal(name, err)
		}
		defer locks.Close()
		lease, err := locks.Acquire(ctx, "key")
		if err != nil {
			t.Fatal(name, err)
		}
		if n := lease.Token() >> 8; n <= 1<<40 {
			t.Errorf("%s: number %d, want more than 2^40", name, n)
		}
		if err := lease.Release(ctx); err != nil {
			t.Error(name, err)
		}
	}
	for _, bad := range []string{"", "x", "-1", "36028797018963968", "1&lock_token_base=2"} {
		if _, err := lock.Open(ctx, "memory:?lock_token_base="+bad); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("lock_token_base=%s: %v, want ErrInvalid", bad, err)
		}
	}
}

// If the number plus the base is too large, Acquire fails with ErrUnsupported, and the key is free again.
func TestTokenBaseOverflow(t *testing.T) {
	ctx := context.Background()
	store := memory.NewStore()
	locks, err := lock.New(store.Client(), lock.WithTokenBase(1<<55-1))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, err := locks.Acquire(ctx, "key"); !errors.Is(err, lock.ErrUnsupported) {
		t.Errorf("Acquire: %v, want ErrUnsupported", err)
	}
	if h, err := locks.Ops().Inspect(ctx, "key"); err != nil || h.Held() {
		t.Errorf("Inspect: %+v, %v, want a free key", h, err)
	}
	if _, err := lock.New(store.Client(), lock.WithTokenBase(1<<55)); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New: %v, want ErrInvalid", err)
	}
}
