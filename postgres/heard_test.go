package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// A wait that ends tells whether the key was busy; one that the server has not answered does not say so.
func TestEndedWaitTellsBusy(t *testing.T) {
	t.Parallel()
	for mode, params := range bothModes {
		_, p, b := proxied(t, params)
		_ = acquire(t, b, req("k", time.Minute))
		end := func(key string, within time.Duration) error {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			_, err := b.Acquire(ctx, waiting(key, time.Minute))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want the end of the context", mode, err)
			}
			return err
		}
		var err error
		for within := 500 * time.Millisecond; !errors.Is(err, backend.ErrHeld) && within < 2*soon; within *= 4 {
			err = end("k", within) // in which a busy machine may not answer at all
		}
		if !errors.Is(err, backend.ErrHeld) {
			t.Errorf("%s: a wait for a busy key: %v, want ErrHeld too", mode, err)
		}
		release(t, acquire(t, b, req("free", time.Minute)))
		p.set(func(p *proxy) { p.mute = true })
		if err := end("free", 500*time.Millisecond); errors.Is(err, backend.ErrHeld) {
			t.Errorf("%s: a wait at a server that hangs: %v", mode, err)
		}
		p.set(func(p *proxy) { p.mute = false })
	}
}
