package recipe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/locktest"
	"github.com/anylock/lock/recipe"
)

// If a holder or a waiter dies, a writer enters when the TTL has run out, at the latest.
func TestRWAfterDeath(t *testing.T) {
	const n = 3
	states := map[string]func(t *testing.T, dying *recipe.RW){
		"writer": func(t *testing.T, dying *recipe.RW) { writer(t, dying) },
		"reader": func(t *testing.T, dying *recipe.RW) { reader(t, dying) },
		"waiting writer": func(t *testing.T, dying *recipe.RW) {
			reader(t, dying)
			go func() { _, _ = dying.Acquire(t.Context()) }()
			waitBlocked()
		},
		"waiting reader": func(t *testing.T, dying *recipe.RW) {
			for range n {
				reader(t, dying)
			}
			go func() { _, _ = dying.AcquireShared(t.Context()) }()
			waitBlocked()
		},
	}
	for name, hold := range states {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				dying := w.locker()
				hold(t, readersWriters(t, dying, n))
				if err := dying.Close(); err != nil { // the keys stay taken until their TTL, as after a crash
					t.Error(err)
				}
				died := time.Now()
				release(t, writer(t, w.rw(n)))
				if took := time.Since(died); took > ttl+time.Second {
					t.Errorf("a writer entered %v after the death, with a TTL of %v", took, ttl)
				}
				w.free(rwKeys(n)...)
			})
		})
	}
}

// The loss of any key is the loss of the whole lease, and ends its context.
func TestRWLoss(t *testing.T) {
	const n = 3
	for _, key := range rwKeys(n) {
		t.Run(key, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				lease := writer(t, w.rw(n))
				ctx := lease.Context(t.Context())
				if lease.Err() != nil || ctx.Err() != nil || lease.Shared() {
					t.Errorf("%v, %v, shared: %v", lease.Err(), ctx.Err(), lease.Shared())
				}
				breakKey(t, w.locker(), key)
				<-ctx.Done()
				wantErr(t, context.Cause(ctx), lock.ErrLost)
				wantErr(t, lease.Err(), lock.ErrLost)
				if time.Now().Before(lease.Deadline().Add(-ttl)) {
					t.Errorf("deadline %v", lease.Deadline())
				}
				wantErr(t, lease.Release(t.Context()), lock.ErrLost)
				w.free(rwKeys(n)...)
			})
		})
	}
}

// If a call loses a key while it waits for another key, it reports the loss soon, and holds nothing afterwards.
func TestRWLossDuringWait(t *testing.T) {
	const n = 3
	queue := func(string) string { return "doc/queue" }
	for _, c := range []struct {
		what    string
		readers int // that hold permits
		lost    func(free string) string
		acquire func(*recipe.RW) acquireRW
	}{
		{"place of a writer", 1, queue, write},
		{"permit of a writer", 1, func(free string) string { return free }, write},
		{"place of a reader", n, queue, read},
	} {
		t.Run(c.what, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				l := w.locker()
				var held []*recipe.RWLease
				for range c.readers {
					held = append(held, reader(t, w.rw(n)))
				}
				free := "doc/permit/0"
				if h, err := l.Ops().Inspect(t.Context(), free); err != nil || h.Held() {
					free = "doc/permit/1"
				}
				ended := make(chan error, 1)
				go func() {
					_, err := c.acquire(w.rw(n))(t.Context())
					ended <- err
				}()
				waitBlocked()
				broken := time.Now()
				breakKey(t, l, c.lost(free))
				select {
				case err := <-ended:
					wantErr(t, err, lock.ErrLost)
				case <-time.After(2 * ttl):
					t.Errorf("no loss %v after it", time.Since(broken))
				}
				for _, lease := range held {
					release(t, lease)
				}
				waitBlocked()
				w.free(rwKeys(n)...)
			})
		})
	}
}

// If any request of a writer's acquisition fails, the writer holds nothing afterwards.
func TestRWFailure(t *testing.T) {
	const n = 3
	for _, key := range rwKeys(n) {
		t.Run(key, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				outage := errors.New("outage")
				w.fault = func(k string) error {
					if k == key {
						w.fault = nil // the release succeeds
						return outage
					}
					return nil
				}
				_, err := w.rw(n).Acquire(t.Context())
				wantErr(t, err, outage)
				w.free(rwKeys(n)...)
			})
		})
	}
}

// The error of a writer's failed call names a key whose release had an unknown outcome, even if another key was lost.
func TestRWUnknownRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		l, err := recipe.NewRW(store.Locker(), "doc", 2)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Hold("doc/permit/1")()
		ended := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context())
			ended <- err
		}()
		synctest.Wait()
		store.SetAway(true)
		store.Lose("doc/permit/0")
		wantErr(t, <-ended, lock.ErrLost, lock.ErrUnavailable)
	})
}

// If a call has lost its place in the queue before its permits are granted, it fails, because a writer with a higher
// token may have held all keys in between.
func TestRWTokenOfLostPlace(t *testing.T) {
	for name, acquire := range map[string]func(*recipe.RW) acquireRW{"reader": read, "writer": write} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				const n = 2
				var delayed atomic.Bool // the first request for a permit was delayed
				w.fault = func(key string) error {
					if key != "doc/queue" && !delayed.Swap(true) {
						w.mu.Unlock()
						release(t, writer(t, w.rw(n))) // waits until the place has expired
						w.mu.Lock()
					}
					return nil
				}
				w.deaf = true
				_, err := acquire(w.rw(n))(t.Context(), lock.WithoutRenewal())
				wantErr(t, err, lock.ErrLost)
				w.free(rwKeys(n)...)
			})
		})
	}
}
