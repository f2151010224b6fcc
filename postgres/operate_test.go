package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// A lease that shares its connection with another cannot be broken without it, and is left alone.
func TestBreakSparesSharedConnection(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL()+"&lock_share=10s")
	operator := opened(t, s.PostgresURL())
	// Leases share a connection where one is free for it, so that two of many do.
	owners := make(map[string]backend.Lease)
	for range 8 {
		r := req(backend.NewOwner(), 10*time.Second)
		owners[r.Key] = acquire(t, b, r)
	}
	refused := 0
	for key, l := range owners {
		h, err := operator.Inspect(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		switch err := operator.Break(context.Background(), key, h.Owner); {
		case err == nil:
			if err := l.Renew(context.Background(), 10*time.Second); !errors.Is(err, backend.ErrLost) {
				t.Errorf("a lease that was broken: %v, want ErrLost", err)
			}
			continue
		case !errors.Is(err, backend.ErrUnsupported):
			t.Errorf("%v, want ErrUnsupported", err)
		}
		refused++
		if err := l.Renew(context.Background(), 10*time.Second); err != nil {
			t.Errorf("a lease that was not broken: %v", err)
		}
		release(t, l)
	}
	if refused == 0 {
		t.Error("no two leases have shared a connection")
	}
}

// An owner may hold any character.
func TestBreakOddOwner(t *testing.T) {
	t.Parallel()
	b := opened(t, gentleURL(t))
	r := req(backend.NewOwner(), time.Minute)
	r.Owner = "a=b c/*d*/é"
	l := acquire(t, b, r)
	if err := b.Break(context.Background(), r.Key, r.Owner); err != nil {
		t.Fatal(err)
	}
	lost(t, l, soon)
}
