package gocronlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock"
	gocronlock "github.com/anylock/lock/adapters/gocron"
	"github.com/anylock/lock/internal/adaptertest"
)

// A key is taken for the minimum hold, however soon its job ends, and then for as long as the job runs, beyond the TTL.
func TestKeyIsFreeAfterJobAndMinHold(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		const ttl, minHold = 4 * time.Second, 5 * time.Second // the machine may stand still for a second or two
		other := gocronlock.NewLocker(adaptertest.Open(t, url), 0)
		locker := gocronlock.NewLocker(adaptertest.Open(t, url, lock.WithTTL(ttl)), minHold)
		for _, takes := range []time.Duration{0, 7 * time.Second} {
			job, err := locker.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			begin, ended := time.Now(), make(chan time.Time, 1)
			time.AfterFunc(takes, func() {
				ctx, cancel := context.WithCancel(context.Background())
				cancel() // as when gocron shuts down
				ended <- time.Now()
				if err := job.Unlock(ctx); err != nil {
					t.Errorf("after %v: %v", takes, err)
				}
			})
			var next interface{ Unlock(context.Context) error }
			for ; ; time.Sleep(10 * time.Millisecond) {
				if next, err = other.Lock(t.Context(), "job"); err == nil {
					break
				}
				if !errors.Is(err, lock.ErrHeld) {
					t.Fatal(err)
				}
			}
			free := time.Now()
			if held := free.Sub(begin); held < minHold-10*time.Millisecond || free.Before(<-ended) {
				t.Errorf("a job of %v left its key after %v, want %v and the job's end at least", takes, held, minHold)
			}
			if err := next.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
