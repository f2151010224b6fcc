//go:build linux

package file_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/file"
)

// While a goroutine has a bucket's file locked, the other goroutines of its process wait for their turn: each opens the
// file only once. A goroutine stops waiting when its context ends. The test is not parallel, because StopAt applies to
// the whole process.
func TestGoroutinesTakeTurns(t *testing.T) {
	b := open(t, t.TempDir())
	var (
		once         sync.Once
		opened       atomic.Int64
		locked, goOn = make(chan struct{}), make(chan struct{})
		group        sync.WaitGroup
	)
	file.StopAt(func(point string) {
		switch point {
		case "opened":
			opened.Add(1)
		case "changed":
			once.Do(func() { close(locked); <-goOn })
		}
	})
	defer file.StopAt(nil)
	acquire := func() {
		if _, err := b.Acquire(context.Background(), sharedRequest(time.Minute, false)); err != nil {
			t.Error(err)
		}
	}
	group.Go(acquire)
	<-locked
	const others = 8
	for range others {
		group.Go(acquire)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.Acquire(ctx, sharedRequest(time.Minute, false))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire: %v", err)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("the file was opened %d times while a goroutine had locked it", n)
	}
	close(goOn)
	group.Wait()
	if n := opened.Load(); n != 1+others {
		t.Errorf("the file was opened %d times for %d requests", n, 1+others)
	}
}
