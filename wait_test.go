package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// An early store sees the end of a wait by the clock, before the context's own timer has run.
type early struct{ backend.Backend }

func (early) Acquire(ctx context.Context, _ backend.Request) (backend.Lease, error) {
	for !backend.Ended(ctx) {
	}
	return nil, backend.ContextError(ctx, nil)
}

// A wait that is over is ErrHeld, whoever notices first; a context that is over is not.
func TestWaitEndsByClock(t *testing.T) {
	l, err := lock.New(early{memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const wait = 5 * time.Millisecond
	for range 50 {
		if _, err := l.Acquire(context.Background(), "k", lock.WithWait(wait)); !errors.Is(err, lock.ErrHeld) {
			t.Fatalf("the wait is over: %v, want ErrHeld", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		_, err := l.Acquire(ctx, "k", lock.WithWait(time.Minute))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrHeld) {
			t.Fatalf("the context is over: %v, want its error", err)
		}
	}
}
