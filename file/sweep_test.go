//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

func openDir(t *testing.T, dir string) *Backend {
	t.Helper()
	b, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func acquire(b *Backend, key string, ttl time.Duration, wait bool) (backend.Lease, error) {
	return b.Acquire(context.Background(), backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait})
}

// files lists what is in a directory, but for the three files that every store keeps.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Name() != epochFile && e.Name() != breakFile && e.Name() != markFile {
			names = append(names, e.Name())
		}
	}
	return names
}

// Files that are removed the moment their key is free never let two owners in, and tokens rise all the same.
func TestRemovalRaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := fileName("k")
	stop := make(chan struct{})
	var sweepers, owners sync.WaitGroup
	remover := openDir(t, dir)
	for range 2 {
		sweepers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					remover.sweep.removeBatch([]string{name})
				}
			}
		})
	}
	var inside atomic.Int32
	var last atomic.Uint64
	for range 4 {
		b := openDir(t, dir)
		owners.Go(func() {
			for range 300 {
				l, err := acquire(b, "k", time.Minute, true)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d owners inside", n)
				}
				if before := last.Swap(l.Token()); l.Token() <= before {
					t.Errorf("token %d after %d", l.Token(), before)
				}
				inside.Add(-1)
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	owners.Wait()
	close(stop)
	sweepers.Wait()
}

// Keys that are used once leave nothing: a second later without being asked, or at Close.
func TestFilesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openDir(t, dir)
	use := func() {
		for i := range 300 {
			l, err := acquire(b, fmt.Sprint("key ", i), time.Minute, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	use()
	for end := time.Now().Add(20 * time.Second); len(files(t, dir)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d files are left", len(files(t, dir)))
		}
	}
	use()
	inTime := sweeps(func() { b.Close() })
	if left := files(t, dir); len(left) > 0 && inTime {
		t.Errorf("left after Close: %q", left)
	}
}

// sweeps reports whether f, a sweep that is bounded, had the time for all of it: a machine that stands still uses it up.
func sweeps(f func()) bool {
	begun := time.Now()
	f()
	return time.Since(begun) < sweepTime
}

// What dead processes have left goes when a store is opened; what lives stays.
func TestSearch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openDir(t, dir)
	b.sweep.work.Wait()
	const ttl = time.Second
	for i := range 100 { // leases whose holder died
		if _, err := acquire(b, fmt.Sprint("dead ", i), ttl, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := acquire(b, "alive", time.Minute, false); err != nil {
		t.Fatal(err)
	}
	alive := filepath.Join(dir, fileName("alive"))
	if err := os.Link(alive, filepath.Join(dir, movedPrefix+"before")); err != nil { // its breaker died before the move
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, movedPrefix+"after"), nil, 0o600); err != nil { // after it
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, movedPrefix+"after"), filepath.Join(dir, movedPrefix+"afterwards")); err != nil { // as another did
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * oldAge)
	for _, name := range []string{inboxPrefix + "0123456789abcdef", tempPrefix + "x"} {
		path := filepath.Join(dir, name)
		if strings.HasPrefix(name, inboxPrefix) {
			if err := makeFIFO(path, 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			fd, err := openAt(path, openNew, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeImage(fd, image{}, nil); err != nil {
				t.Fatal(err)
			}
			closeFD(fd)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	live, err := b.inbox.address()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(b.inbox.path(live), old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a user's file.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(ttl)
	for !sweeps(b.sweep.search) {
	}
	left := strings.Join(files(t, dir), " ")
	want := filepath.Base(b.inbox.path(live)) + " " + movedPrefix + "after " + movedPrefix + "afterwards a user's file.txt " + fileName("alive")
	if left != want {
		t.Errorf("left: %s; want: %s", left, want)
	}
}

// Keys whose leases run out, or are lost, leave nothing either, while the process that took them runs on.
func TestFilesOfLostLeasesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openDir(t, dir)
	for i := range 300 {
		ttl := 200 * time.Millisecond
		if i%3 == 0 {
			ttl = 2 * time.Second // its holder knows of the loss 22 ms sooner than the store
		}
		if _, err := acquire(b, fmt.Sprint("key ", i), ttl, false); err != nil && !errors.Is(err, backend.ErrLost) { // this machine stood still
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(20 * time.Second); len(files(t, dir)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d files are left", len(files(t, dir)))
		}
	}
}
