package leak

import (
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { VerifyTestMain(m) }

func TestLeftGoroutineIsFound(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go leaks(stop, stopped)
	stacks := left(10 * time.Millisecond)
	if len(stacks) != 1 || !strings.Contains(stacks[0], "leak.leaks(") {
		t.Errorf("found %q, want the goroutine of leaks", stacks)
	}
	close(stop)
	<-stopped
	if stacks := left(time.Second); len(stacks) > 0 {
		t.Errorf("found %q, want nothing", stacks)
	}
}

func leaks(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	<-stop
}

// A goroutine that ends soon after the tests is no leak.
func TestEndingGoroutineIsAwaited(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go leaks(stop, stopped)
	time.AfterFunc(50*time.Millisecond, func() { close(stop) })
	if stacks := left(10 * time.Second); len(stacks) > 0 {
		t.Errorf("found %q, want nothing", stacks)
	}
}
