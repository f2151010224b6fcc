package certmagiclock_test

import (
	"errors"
	"testing"

	"github.com/caddyserver/certmagic"

	"github.com/anylock/lock"
	certmagiclock "github.com/anylock/lock/adapters/certmagic"
	"github.com/anylock/lock/internal/adaptertest"
)

// With shared leases, several instances would have one name. An owner is for one acquisition. Both are refused, and no
// key is held afterwards.
func TestRefusesOptions(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	data := &certmagic.FileStorage{Path: t.TempDir()}
	for how, s := range map[string]*certmagiclock.Storage{
		"shared by an option": certmagiclock.New(data, adaptertest.Open(t, url), lock.Shared()),
		"shared by a default": certmagiclock.New(data, adaptertest.Open(t, url, lock.Shared())),
		"with an owner":       certmagiclock.New(data, adaptertest.Open(t, url), lock.WithOwner("me")),
	} {
		if err := s.Lock(t.Context(), name); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("Lock, %s: %v, want ErrInvalid", how, err)
		}
		if locked, err := s.TryLock(t.Context(), name); locked || !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("TryLock, %s: %v, %v, want ErrInvalid", how, locked, err)
		}
	}
	if h, err := adaptertest.Open(t, url).Ops().Inspect(t.Context(), name); err != nil || h.Held() {
		t.Errorf("afterwards %+v holds the name, %v", h, err)
	}
}
