package recipe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/recipe"
)

// begin starts Lead. The channel receives its error.
func begin(
	ctx context.Context, l *lock.Locker, f func(context.Context, *lock.Lease) error, opts ...lock.AcquireOption,
) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- recipe.Lead(ctx, l, "boss", f, opts...) }()
	return ended
}

func TestLeadersTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		const candidates, each = 3, time.Minute
		var (
			leading int
			token   uint64
			terms   [candidates]int
			ended   [candidates]<-chan error
		)
		for i := range candidates {
			ended[i] = begin(ctx, w.locker(), func(ctx context.Context, lease *lock.Lease) error {
				leading++ // guarded only by the lock
				if leading != 1 || lease.Token() <= token {
					t.Errorf("%d lead, with token %d after %d", leading, lease.Token(), token)
				}
				token = lease.Token()
				terms[i]++
				select {
				case <-ctx.Done():
				case <-time.After(each):
				}
				leading--
				return nil
			})
		}
		time.Sleep(9*each + each/2)
		waitBlocked()
		for i, n := range terms {
			if n < 3 {
				t.Errorf("candidate %d has led %d times", i, n)
			}
		}
		cancel()
		for _, ended := range ended {
			wantErr(t, <-ended, context.Canceled)
		}
		w.free("boss")
	})
}

// After a loss Lead campaigns again, whatever f returned.
func TestLeadAfterLoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		l := w.locker()
		terms := make(chan *lock.Lease, 10)
		causes := make(chan error, 10)
		ended := begin(ctx, l, func(ctx context.Context, lease *lock.Lease) error {
			terms <- lease
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return errors.New("cut short")
		})
		first := <-terms
		breakKey(t, w.locker(), "boss")
		second := <-terms
		wantErr(t, <-causes, lock.ErrLost)
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		cancel()
		if err := <-ended; err == nil || err.Error() != "cut short" {
			t.Errorf("%v, want f's error", err)
		}
		w.free("boss")
	})
}

func TestLeadReturnsErrorOfF(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bad := errors.New("disk full")
		wantErr(t, recipe.Lead(t.Context(), w.locker(), "boss", func(context.Context, *lock.Lease) error { return bad }), bad)
		w.free("boss")
		func() {
			defer func() { _ = recover() }()
			_ = recipe.Lead(t.Context(), w.locker(), "boss", func(context.Context, *lock.Lease) error { panic(bad) })
		}()
		w.free("boss")
	})
}

// A term that hangs ends after its maximum hold, and another candidate leads.
func TestLeadMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		terms := make(chan string, 10)
		lead := func(name string) <-chan error {
			return begin(ctx, w.locker(), func(ctx context.Context, _ *lock.Lease) error {
				terms <- name
				<-ctx.Done()
				return nil
			}, lock.WithMaxHold(time.Hour))
		}
		a := lead("a")
		waitBlocked()
		b := lead("b")
		for i, want := range []string{"a", "b", "a", "b"} {
			if got := <-terms; got != want {
				t.Errorf("term %d: %s leads, want %s", i, got, want)
			}
		}
		cancel()
		wantErr(t, <-a, context.Canceled)
		wantErr(t, <-b, context.Canceled)
	})
}

// While the store is not available, Lead tries again about once a second.
func TestLeadOutlivesOutage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		w.fault = func(string) error {
			if time.Since(start) < time.Minute {
				return backend.ErrUnavailable
			}
			return nil
		}
		ended := begin(ctx, w.locker(), func(ctx context.Context, _ *lock.Lease) error {
			cancel()
			return nil
		})
		wantErr(t, <-ended, context.Canceled)
		if _, n := w.took(); n < 40 || n > 125 {
			t.Errorf("%d requests during an outage of a minute", n)
		}
	})
}

func TestLeadFinalErrors(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		never := func(context.Context, *lock.Lease) error {
			t.Error("it leads")
			return errors.New("led")
		}
		l := w.locker()
		wantErr(t, recipe.Lead(t.Context(), l, "", never), lock.ErrInvalid)
		// The clean-up of a failed campaign would end the next term of the same owner.
		wantErr(t, recipe.Lead(t.Context(), l, "boss", never, lock.WithOwner("me")), lock.ErrInvalid)
		lease, err := l.Acquire(t.Context(), "boss")
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, recipe.Lead(lease.Context(t.Context()), l, "boss", never), lock.ErrDeadlock)
		ended := begin(t.Context(), l, never)
		waitBlocked()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, <-ended, lock.ErrClosed)
	})
}
