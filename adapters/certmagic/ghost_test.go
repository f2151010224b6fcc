package certmagiclock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/anylock/lock"
	certmagiclock "github.com/anylock/lock/adapters/certmagic"
	"github.com/anylock/lock/internal/adaptertest"
	"github.com/anylock/lock/internal/storetest"
)

// The store may have a lost lease still. It does not keep its holder out.
func TestRenewalIsNotKeptOutByTheLost(t *testing.T) {
	store := adaptertest.NewGhosts()
	locks, err := lock.New(store, lock.WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	s := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, locks)
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	close(store.Lost)
	storetest.Until(t, storetest.Soon, "the loss to be noticed", func() bool {
		_, err := locks.TryAcquire(t.Context(), name)
		return errors.Is(err, lock.ErrHeld) && store.Asked.Load() > 1 // before, it does not get as far as the store
	})
	if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
		t.Error(err)
	}
	if err := s.Unlock(t.Context(), name); err != nil {
		t.Error(err)
	}
}
