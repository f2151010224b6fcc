package certmagiclock_test

import (
	"errors"
	"testing"

	"github.com/caddyserver/certmagic"

	"github.com/anylock/lock"
	certmagiclock "github.com/anylock/lock/adapters/certmagic"
	"github.com/anylock/lock/internal/adaptertest"
)

// With shared leases, several instances would have one name. They are refused, and no key is held afterwards.
func TestRefusesSharedLeases(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	data := &certmagic.FileStorage{Path: t.TempDir()}
	for how, s := range map[string]*certmagiclock.Storage{
		"by an option": certmagiclock.New(data, adaptertest.Open(t, url), lock.Shared()),
		"by a default": certmagiclock.New(data, adaptertest.Open(t, url, lock.Shared())),
	} {
		if err := s.Lock(t.Context(), name); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("Lock, shared %s: %v, want ErrInvalid", how, err)
		}
		if locked, err := s.TryLock(t.Context(), name); locked || !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("TryLock, shared %s: %v, %v, want ErrInvalid", how, locked, err)
		}
	}
	if h, err := adaptertest.Open(t, url).Ops().Inspect(t.Context(), name); err != nil || h.Held() {
		t.Errorf("afterwards %+v holds the name, %v", h, err)
	}
}
