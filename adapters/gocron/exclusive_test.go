package gocronlock_test

import (
	"errors"
	"testing"

	"github.com/anylock/lock"
	gocronlock "github.com/anylock/lock/adapters/gocron"
	"github.com/anylock/lock/internal/adaptertest"
)

// With shared leases, several schedulers would run one fire. An owner is for one acquisition. Both are refused, and no
// key is held afterwards.
func TestLockerRefusesOptions(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	for how, l := range map[string]*gocronlock.Locker{
		"shared by an option": gocronlock.NewLocker(adaptertest.Open(t, url), 0, lock.Shared()),
		"shared by a default": gocronlock.NewLocker(adaptertest.Open(t, url, lock.Shared()), 0),
		"with an owner":       gocronlock.NewLocker(adaptertest.Open(t, url), 0, lock.WithOwner("me")),
	} {
		if _, err := l.Lock(t.Context(), "job"); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", how, err)
		}
	}
	if h, err := adaptertest.Open(t, url).Ops().Inspect(t.Context(), "job"); err != nil || h.Held() {
		t.Errorf("afterwards %+v holds the key, %v", h, err)
	}
}
