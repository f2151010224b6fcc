package locktests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/memory"
)

// Shutdown also ends the waits of a Locker at the store, for a holder in another Locker.
func TestShutdownEndsWaitsAtStore(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"File": "file://" + t.TempDir() + "/locks", "Memory": "memory://" +
		t.Name()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holding, err := lock.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer holding.Close()
			lease, err := holding.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				l, err := lock.Open(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.Ops().Ping(t.Context()); err != nil {
					t.Error(err)
				}
				waits, queued := acquiring(l), acquiring(l)
				for under := false; i%2 > 0 && !under; { // for an even i, the waits may not have begun
					h, err := holding.Ops().Inspect(t.Context(), "k")
					if under = h.Waiters != 0; err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				if err := l.Shutdown(ctx); err != nil {
					t.Fatal(err)
				}
				cancel()
				for _, w := range []<-chan error{waits, queued} {
					if err := <-w; !errors.Is(err, lock.ErrClosed) {
						t.Errorf("a waiting Acquire: %v", err)
					}
				}
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// acquiring starts an Acquire of "k" and returns the channel that receives its error.
func acquiring(l *lock.Locker) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := l.Acquire(context.Background(), "k")
		done <- err
	}()
	return done
}
