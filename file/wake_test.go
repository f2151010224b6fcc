//go:build linux

package file_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/storetest"
)

// A waiter that is not among the first two polls only about once a second. If the waiters before it are cancelled, it
// is still granted the key of a dead holder in time.
func TestLastWaiterTakesKeyInTime(t *testing.T) {
	t.Parallel()
	for name, oneStays := range map[string]bool{"all others give up": false, "all but the first give up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.ThreeTries(t, func() error { return lastWaiterTakesKey(t, oneStays) })
		})
	}
}

// lastWaiterTakesKey returns an error if the key went to another waiter, because the machine stood still.
func lastWaiterTakesKey(t *testing.T, oneStays bool) error {
	t.Helper()
	const ttl, next = 3 * time.Second, time.Second
	dir := t.TempDir()
	b := open(t, dir)
	mustTry(t, open(t, dir), "k", ttl) // this lease is not renewed
	watch := startWatch(t)
	most := ttl + b.Guarantees().MaxLate
	over, end := context.WithCancel(t.Context())
	defer end()
	wait := func(ctx context.Context, ttl time.Duration) <-chan result {
		return queue(ctx, t, b, request("k", ttl, true))
	}
	var first <-chan result
	if oneStays {
		first = wait(over, next)
	}
	ctx, giveUp := context.WithCancel(over)
	defer giveUp()
	var others []<-chan result
	for range 43 {
		others = append(others, wait(ctx, time.Minute))
	}
	last := wait(over, time.Minute)
	giveUp()
	for _, done := range others {
		if (<-done).err == nil {
			return errors.New("this machine stood still: granted to a waiter that was to give up before")
		}
	}
	if oneStays {
		(<-first).granted(t)
		watch, most = startWatch(t), next+b.Guarantees().MaxLate // this lease is not renewed either
	}
	(<-last).granted(t)
	if took := watch.took(); took > most {
		t.Errorf("granted %v after the last grant, want %v at most", took, most)
	}
	return nil
}

// If a holder makes its lease shorter, as a minimum hold does, the waiter is granted the key when the shorter lease has
// expired.
func TestShorterLeasePassesKeyOn(t *testing.T) {
	t.Parallel()
	const rest = 50 * time.Millisecond
	dir := t.TempDir()
	b, other := open(t, dir), open(t, dir)
	held := mustTry(t, b, "k", time.Hour)
	var waiter sync.WaitGroup
	waiter.Go(func() { mustWait(t, other, "k", time.Minute) })
	eventually(t, "the waiter is queued", func() bool { return waiters(t, b, "k") == 1 }) // it polls again in 0.75 to 1 s
	watch := startWatch(t)
	if err := held.Renew(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	waiter.Wait()
	if took, most := watch.took(), rest+b.Guarantees().MaxLate; took > most {
		t.Errorf("granted %v after the lease was made shorter, want %v at most", took, most)
	}
}

// When a lease expires, a dead first waiter does not delay the second waiter. A stopped first waiter delays it by at
// most its reservation.
func TestFirstWaiterIsGoneAtExpiry(t *testing.T) {
	t.Parallel()
	for how, delay := range map[string]time.Duration{"killed": 0, "stopped": file.ClaimGrace} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const rest, busy = 200 * time.Millisecond, 250 * time.Millisecond
			dir := t.TempDir()
			b := open(t, dir)
			held := mustTry(t, b, "k", time.Hour)
			c := start(t, dir, "shell")
			c.send("wait k 60000")
			eventually(t, "the waiter is queued", func() bool { return waiters(t, b, "k") == 1 })
			c.freeze()
			watch := startWatch(t)
			if err := held.Renew(t.Context(), rest); err != nil {
				t.Fatal(err)
			}
			if how == "killed" {
				c.kill()
			}
			mustWait(t, b, "k", time.Minute)
			if took, most := watch.took(), rest+delay+busy; took > most {
				t.Errorf("granted after %v, want %v at most", took, most)
			}
		})
	}
}
