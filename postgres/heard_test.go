package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A wait that ends tells whether the key was busy; one that the server has not answered does not say so.
func TestEndedWaitReportsBusy(t *testing.T) {
	t.Parallel()
	for mode, params := range variants {
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

// A server that answers each attempt at a free key with an error is not away: the wait ends with what it says.
func TestErrorEndsWait(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	url := s.role(t, c, "")
	if _, err := c.Exec(t.Context(), "REVOKE EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) FROM PUBLIC"); err != nil {
		t.Fatal(err)
	}
	b := opened(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	const denied = "42501"
	if _, err := b.Acquire(ctx, waiting("k", time.Second)); code(err) != denied || kit.IsContextError(err) {
		t.Errorf("%v, want SQLSTATE %s", err, denied)
	}
}
