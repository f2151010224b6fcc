//go:build linux

package file_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/file"
)

// TestMain runs a child's role instead of the tests if the environment names one: see child_test.go.
func TestMain(m *testing.M) {
	process.Main(func(ctx context.Context, dir string) (backend.Backend, error) { return file.Open(ctx, dir) })
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(runRole(role))
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, dir string) *file.Backend {
	t.Helper()
	b, err := file.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func request(key string, ttl time.Duration, wait bool) backend.Request {
	return backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait}
}

func try(b backend.Backend, key string, ttl time.Duration) (backend.Lease, error) {
	return b.Acquire(context.Background(), request(key, ttl, false))
}

func mustTry(t testing.TB, b backend.Backend, key string, ttl time.Duration) backend.Lease {
	t.Helper()
	l, err := try(b, key, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustWait(t testing.TB, b backend.Backend, key string, ttl time.Duration) backend.Lease {
	t.Helper()
	l, err := b.Acquire(context.Background(), request(key, ttl, true))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// eventually polls until ok returns true. Only a failing test reaches its time limit.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// A stopwatch measures the time during which this process runs, so that a stall of the test does not count as a delay
// of the store.
type stopwatch struct {
	mu   sync.Mutex
	seen time.Time // when the process last ran
	ran  time.Duration
}

// startWatch starts a stopwatch, which runs to the end of the test.
func startWatch(t testing.TB) *stopwatch {
	w := &stopwatch{seen: time.Now()}
	end, ended := make(chan struct{}), make(chan struct{})
	beat := time.NewTicker(5 * time.Millisecond)
	go func() {
		defer close(ended)
		defer beat.Stop()
		for {
			select {
			case <-end:
				return
			case <-beat.C:
				w.took()
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		<-ended
	})
	return w
}

// took returns the time since the start. It counts at most 20 ms for the time between two beats, which is enough for a
// busy machine.
func (w *stopwatch) took() time.Duration {
	const most = 20 * time.Millisecond
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.ran += min(now.Sub(w.seen), most)
	w.seen = now
	return w.ran
}

func waiters(t testing.TB, b backend.Backend, key string) int {
	t.Helper()
	h, err := b.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return h.Waiters
}
