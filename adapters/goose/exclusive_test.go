package gooselock_test

import (
	"errors"
	"testing"

	"github.com/anylock/lock"
	gooselock "github.com/anylock/lock/adapters/goose"
	"github.com/anylock/lock/internal/adaptertest"
)

// With shared leases, several processes would migrate at once. An owner is for one acquisition. Both are refused, and
// no key is held afterwards.
func TestRefusesOptions(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	for how, l := range map[string]*gooselock.Locker{
		"shared by an option": gooselock.New(adaptertest.Open(t, url), "db/migrate", lock.Shared()),
		"shared by a default": gooselock.New(adaptertest.Open(t, url, lock.Shared()), "db/migrate"),
		"with an owner":       gooselock.New(adaptertest.Open(t, url), "db/migrate", lock.WithOwner("me")),
	} {
		if err := l.Lock(t.Context(), nil); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", how, err)
		}
	}
	if h, err := adaptertest.Open(t, url).Ops().Inspect(t.Context(), "db/migrate"); err != nil || h.Held() {
		t.Errorf("afterwards %+v holds the key, %v", h, err)
	}
}
