//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// usage returns the number of files below dir, and their total size in bytes.
func usage(t *testing.T, dir string) (files int, bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		files, bytes = files+1, bytes+info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, bytes
}

// The folder does not grow with the number of keys that were used once, whether their leases were released or have
// expired.
func TestKeysLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := openDir(t, dir)
	var first int64
	for round := range 4 {
		for i := range 1250 {
			ttl := 10 * time.Millisecond
			if i%2 == 0 {
				ttl = time.Minute
			}
			l, err := acquire(b, fmt.Sprint("key ", round, " ", i), ttl, false)
			if errors.Is(err, backend.ErrLost) {
				continue // this machine stalled
			}
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(20 * time.Millisecond) // sleeps: the short TTLs must pass
		files, bytes := usage(t, dir)
		t.Logf("%d keys: %d files, %d bytes", 1250*(round+1), files, bytes)
		if files > buckets+1 || bytes > buckets*2*pageSize {
			t.Errorf("%d keys leave %d files of %d bytes", 1250*(round+1), files, bytes)
		}
		if first = max(first, bytes); round > 0 && bytes > first+buckets*pageSize/2 {
			t.Errorf("%d bytes after %d", bytes, first)
		}
	}
	for i := range 2000 { // writes to each bucket once more
		l, err := acquire(b, fmt.Sprint("last ", i), time.Minute, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range list(t, dir) {
		fd, err := openAt(filepath.Join(dir, name), openRead, 0)
		if err != nil {
			t.Fatal(err)
		}
		img, err := readImage(fd)
		closeFD(fd)
		if name == markFile {
			continue
		}
		if bk, err2 := b.store.decode(name, img.body, b.store.clock()); err != nil || err2 != nil || len(bk.entries) > 0 {
			t.Errorf("%s: %+v is left (%v, %v)", name, bk.entries, err, err2)
		}
	}
}

// A process that creates its FIFO removes the FIFOs of dead processes, and keeps those of live ones.
func TestDeadInboxesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, other := openDir(t, dir), openDir(t, dir)
	live, err := b.inbox.address()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, inboxPrefix+"0123456789abcdef")
	if err := makeFIFO(dead, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := other.inbox.address(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dead: false, b.inbox.path(live): true} {
		if _, err := os.Lstat(path); err == nil != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
