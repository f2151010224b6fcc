//go:build !race

package lock_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// An uncontended cycle makes at most four allocations: the lock's own state in one piece, the owner, the store's lease,
// and the callback for its loss. Without a Tracer, tracing allocates nothing, and its fields do not move that piece to
// the next size class.
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
	// 720 bytes; the rest allows for other work of the process
	if bytes := float64(after.TotalAlloc-before.TotalAlloc) / (times + 1); bytes > 736 {
		t.Errorf("%.0f bytes, want at most 736", bytes)
	}
}
