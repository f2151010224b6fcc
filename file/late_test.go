//go:build linux

package file_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
)

// A waiter has stalled for its TTL, and the release of its late grant still runs in the background. That release must
// not end a lease that the waiter gets afterwards. Both the waiter and the background release, in either order. The
// first of them to open the bucket is delayed for longer than the waiter tries to release.
func TestLateGrantIsNotTakenAgain(t *testing.T) {
	const key, ttl = "k", 300 * time.Millisecond
	dir := t.TempDir()
	waiter := goroutine()
	var late, blocked atomic.Bool
	t.Cleanup(func() { file.StopAt(nil) })
	file.StopAt(func(point string) {
		switch mine := goroutine() == waiter; {
		case mine && point == "written" && late.CompareAndSwap(false, true):
			time.Sleep(ttl) // sleeps: the waiter stalls for its TTL
		case point != "opened" || !late.Load():
		case !mine:
			blocked.Store(true)
			time.Sleep(ttl / 2) // sleeps: a slow release in the background
		case blocked.CompareAndSwap(false, true):
			unlock := lockFile(t, filepath.Join(dir, file.BucketName(key)))
			time.AfterFunc(80*time.Millisecond, unlock)
		}
	})
	b, other := open(t, dir), open(t, dir)
	l, err := b.Acquire(t.Context(), request(key, ttl, true))
	if !blocked.Load() {
		t.Fatal("nothing was released")
	}
	if err != nil {
		if !errors.Is(err, backend.ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
		mustWait(t, other, key, ttl)
		return
	}
	for ; time.Now().Before(l.Deadline()); time.Sleep(time.Millisecond) {
		if _, err := try(other, key, ttl); err == nil && time.Now().Before(l.Deadline()) {
			t.Fatalf("a second owner, %v before the first one's deadline", time.Until(l.Deadline()))
		}
	}
}

// goroutine returns an identifier of the calling goroutine.
func goroutine() string {
	buf := make([]byte, 64)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), "[")
	return name
}

// lockFile locks a file, as another process would.
func lockFile(t *testing.T, path string) (unlock func()) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		t.Error(err)
	}
	return func() { unix.Close(fd) }
}
