package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// A renewal that the server cancels ends the transaction that holds the lock: the lease is lost at once, not at its deadline.
func TestCancelledRenewalInTransaction(t *testing.T) {
	// not parallel: it needs the server for itself
	url := gentleURL(t)
	b := opened(t, url+"&lock_mode=transaction")
	l := acquire(t, b, req("k", time.Minute))
	c := dialed(t, url)
	pid := query[int](t, c, "SELECT pid FROM pg_locks WHERE granted AND "+advisory)
	ctx, stop := context.WithCancel(context.Background())
	cancelling := make(chan struct{})
	go func() {
		defer close(cancelling)
		for ctx.Err() == nil {
			_, _ = c.Exec(context.Background(), "SELECT pg_cancel_backend($1) FROM generate_series(1, 100)", pid)
		}
	}()
	t.Cleanup(func() { stop(); <-cancelling })
	var err error
	until(t, 2*time.Minute, "a renewal is cancelled", func() bool { // a cancellation must meet one
		for range 200 {
			if err = l.Renew(context.Background(), time.Minute); err != nil {
				return true
			}
		}
		return false
	})
	stop()
	<-cancelling
	release(t, acquire(t, opened(t, url), req("k", time.Minute))) // the key is free
	if !errors.Is(err, backend.ErrLost) {
		t.Errorf("the renewal: %v, want ErrLost", err)
	}
	if time.Now().Before(l.Deadline()) {
		lost(t, l, soon)
	}
}
