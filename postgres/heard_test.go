package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// If a wait ends, its error matches ErrHeld if the key was busy, but not if the server has not replied.
func TestEndedWaitReportsBusy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, params string
		shared       bool
	}{{"default", "", false}, {"shared", "", true}, {"durable", "&lock_durable=true", false}} {
		mode := c.mode
		_, p, b := proxied(t, c.params)
		_ = acquire(t, b, req("k", time.Minute))
		end := func(key string, within time.Duration) error {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			r := waiting(key, time.Minute)
			r.Shared = c.shared
			_, err := b.Acquire(ctx, r)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want the end of the context", mode, err)
			}
			return err
		}
		var err error
		for within := 500 * time.Millisecond; !errors.Is(err, backend.ErrHeld) && within < 2*soon; within *= 4 {
			err = end("k", within) // a busy machine may not reply at all within this time
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

// If the server replies to an attempt at a free key with an error, the wait ends with that error: the server can be
// reached.
func TestErrorEndsWait(t *testing.T) {
	t.Parallel()
	s := altered(t)
	c := dialed(t, s.PostgresURL())
	url := s.role(t, c, "")
	for _, function := range []string{"pg_try_advisory_lock", "pg_try_advisory_lock_shared"} {
		if _, err := c.Exec(t.Context(), "REVOKE EXECUTE ON FUNCTION "+function+"(bigint) FROM PUBLIC"); err != nil {
			t.Fatal(err)
		}
	}
	b := opened(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	const denied = "42501"
	for _, shared := range []bool{false, true} {
		r := waiting("k", time.Second)
		r.Shared = shared
		if _, err := b.Acquire(ctx, r); code(err) != denied || kit.IsContextError(err) {
			t.Errorf("shared=%v: %v, want SQLSTATE %s", shared, err, denied)
		}
	}
}
