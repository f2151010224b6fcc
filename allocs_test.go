//go:build !race

package lock_test

import (
	"context"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// What an uncontended cycle allocates: the lock's part in one piece, its owner's name, the store's lease, and the call at its loss.
func TestCycleAllocatesLittle(t *testing.T) {
	l, err := lock.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := testing.AllocsPerRun(1000, func() {
		lease, err := l.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	if got > 4 {
		t.Errorf("%v allocations, want at most 4", got)
	}
}
