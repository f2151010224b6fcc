package recipe_test

import (
	"context"
	"errors"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/recipe"
)

// Recipes that need exclusive leases refuse lock.Shared, and hold nothing afterwards. They refuse lock.WithOwner too: a
// semaphore that has to wait acquires a permit a second time, and the clean-up of the first attempt would end the lease
// of the same owner.
func TestRecipesRefuseSharedAndWithOwner(t *testing.T) {
	for option, refused := range map[string]lock.AcquireOption{
		"Shared": lock.Shared(), "WithOwner": lock.WithOwner("me"),
	} {
		bubble(t, func(t *testing.T, w *world) {
			ctx, l := t.Context(), w.locker()
			semaphore, rw := semaphore(t, l, 2), readersWriters(t, l, 2)
			for name, call := range map[string]func() error{
				"Lead": func() error {
					return recipe.Lead(ctx, l, "boss", func(context.Context, *lock.Lease) error {
						t.Error("it leads")
						return errors.New("led")
					}, refused)
				},
				"Semaphore.Acquire":    func() error { _, err := semaphore.Acquire(ctx, refused); return err },
				"Semaphore.TryAcquire": func() error { _, err := semaphore.TryAcquire(ctx, refused); return err },
				"RW.Acquire":           func() error { _, err := rw.Acquire(ctx, refused); return err },
				"RW.TryAcquire":        func() error { _, err := rw.TryAcquire(ctx, refused); return err },
				"RW.AcquireShared":     func() error { _, err := rw.AcquireShared(ctx, refused); return err },
				"RW.TryAcquireShared":  func() error { _, err := rw.TryAcquireShared(ctx, refused); return err },
			} {
				if err := call(); !errors.Is(err, lock.ErrInvalid) {
					t.Errorf("%s with %s: error %v", name, option, err)
				}
			}
			w.free("boss", "mail/queue", "mail/permit/0")
			w.free(rwKeys(2)...)
		})
	}
}

// A set of shared leases admits other readers of its keys, and no writer.
func TestSetIsShared(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		set, err := recipe.AcquireAll(t.Context(), w.locker(), []string{"b", "a"}, lock.Shared())
		if err != nil {
			t.Fatal(err)
		}
		defer release(t, set)
		other, err := recipe.TryAcquireAll(t.Context(), w.locker(), []string{"a", "b"}, lock.Shared())
		if err != nil {
			t.Fatal(err)
		}
		defer release(t, other)
		_, err = recipe.TryAcquireAll(t.Context(), w.locker(), []string{"a", "b"})
		wantErr(t, err, lock.ErrHeld)
	})
}
