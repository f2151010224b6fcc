//go:build !race

package lock_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// What an uncontended cycle allocates: the lock's part in one piece, its owner's name, the store's lease, and the call
// at its loss. A tracer that is not there adds nothing, and its fields do not make the piece one of the next size.
func TestCycleAllocatesLittle(t *testing.T) {
	l, err := lock.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const times = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := testing.AllocsPerRun(times, func() {
		lease, err := l.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	runtime.ReadMemStats(&after)
	if got > 4 {
		t.Errorf("%v allocations, want at most 4", got)
	}
	// 720, and what else the process does
	if bytes := float64(after.TotalAlloc-before.TotalAlloc) / (times + 1); bytes > 736 {
		t.Errorf("%.0f bytes, want at most 736", bytes)
	}
}
