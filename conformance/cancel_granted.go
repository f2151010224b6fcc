package conformance

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// Part of CancelRacesGrant: cancellations that a store notices just before the grant.

// A grantingContext is the context of a waiter. When the store asks why the context has ended, the holder releases the
// key, so that the grant meets a waiter that leaves.
type grantingContext struct {
	context.Context
	release  func() // begins the release
	released <-chan struct{}
}

// Err gives the release a moment, but sets no timer: if the caller holds a mutex, the clock of a bubble stands still.
func (c grantingContext) Err() error {
	const moment = 200
	err := c.Context.Err()
	if err == nil {
		return nil
	}
	c.release()
	begun := time.Now()
	for i := 0; i < moment && time.Since(begun) < stall; i++ {
		select {
		case <-c.released:
			return err
		default:
			runtime.Gosched()
		}
	}
	return err
}

// grantsMeetCancellation cancels waiters for fresh keys, which are released as the store notices the cancellation.
func (t *trial) grantsMeetCancellation(keys *raced) {
	const rounds = 3
	modes := t.modes()
	t.inChunks(2*len(modes), 2, func(i int) {
		for range rounds {
			g := t.acquire(t.a, keys.fresh(), t.long())
			r := backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true, Shared: modes[i/2]}
			inner, cancel := context.WithCancel(t.ctx)
			released := make(chan struct{})
			ctx := grantingContext{inner, sync.OnceFunc(func() {
				t.spawn(func() { defer close(released); t.release(g) })
			}), released}
			begun := time.Now()
			wait := t.call(func() error {
				next, err := t.request(ctx, t.client(i), r)
				if err == nil {
					t.release(next)
				}
				return err
			})
			t.arrived(g.key, 1)
			cancel()
			err := wait.ends(t, soon, "Acquire whose context has ended")
			ctx.release()
			<-released
			if err != nil && !errors.Is(err, context.Canceled) {
				t.unavailable(err, begun)
				t.fatalf("Acquire%s whose context has ended: %v, want %v", inMode(r.Shared), err, context.Canceled)
			}
			t.becomesFree(t.b, g.key, time.Second+t.g.MaxLate, "after the grant met a cancellation")
		}
	})
}
