//go:build linux

package file_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/file"
)

// A waiter far behind polls seldom. When those before it have given up, it still acquires the key of a dead holder in
// time.
func TestLastWaiterTakesKeyInTime(t *testing.T) {
	t.Parallel()
	for name, oneStays := range map[string]bool{"all others give up": false, "all but the first give up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl, next = 3 * time.Second, time.Second
			dir := t.TempDir()
			b := open(t, dir)
			mustTry(t, open(t, dir), "k", ttl) // and is not renewed
			watch := startWatch(t)
			most := ttl + b.Guarantees().MaxLate
			wait := func(ctx context.Context, ttl time.Duration) <-chan result {
				return queue(ctx, t, b, request("k", ttl, true))
			}
			var first <-chan result
			if oneStays {
				first = wait(t.Context(), next)
			}
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			var others []<-chan result
			for range 43 {
				others = append(others, wait(ctx, time.Minute))
			}
			last := wait(t.Context(), time.Minute)
			giveUp()
			for _, done := range others {
				if (<-done).err == nil {
					t.Fatal("this machine stood still: granted to a waiter that was to give up before")
				}
			}
			if oneStays {
				(<-first).granted(t)
				watch, most = startWatch(t), next+b.Guarantees().MaxLate // it does not renew either
			}
			(<-last).granted(t)
			if took := watch.took(); took > most {
				t.Errorf("granted %v after the last grant, want %v at most", took, most)
			}
		})
	}
}

// A holder that makes its lease shorter, as a minimum hold does, passes the key on when that has run out.
func TestShorterLeasePassesKeyOn(t *testing.T) {
	t.Parallel()
	const rest = 50 * time.Millisecond
	dir := t.TempDir()
	b, other := open(t, dir), open(t, dir)
	held := mustTry(t, b, "k", time.Hour)
	var waiter sync.WaitGroup
	waiter.Go(func() { mustWait(t, other, "k", time.Minute) })
	eventually(t, "the waiter is queued", func() bool { return waiters(t, b, "k") == 1 }) // its own next look is far away
	watch := startWatch(t)
	if err := held.Renew(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	waiter.Wait()
	if took, most := watch.took(), rest+b.Guarantees().MaxLate; took > most {
		t.Errorf("granted %v after the lease was made shorter, want %v at most", took, most)
	}
}

// When a lease runs out, a first waiter that is dead does not delay the second, and one that is stopped does so by its
// turn.
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
