//go:build linux || darwin

package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

func TestOpenMakesPrivateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	b := openDir(t, dir)
	if _, err := acquire(b, "k", time.Minute, false); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, bucketName("k")): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v (%v), want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

// The directory may be a link to another one. Processes that use either name exclude each other.
func TestLinkedDirectory(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	byLink, byName := openDir(t, link), openDir(t, dir)
	if _, err := acquire(byLink, "k", time.Minute, false); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(byName, "k", time.Minute, false); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("the same key by the directory's own name: %v, want ErrHeld", err)
	}
}

// Users who may write to the directory may use its locks, whatever the umask.
func TestSharedDirectory(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	for _, c := range []struct{ dir, file fs.FileMode }{
		{0o770, 0o660}, {0o777, 0o666}, {0o755, 0o600},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, c.dir); err != nil {
			t.Fatal(err)
		}
		b := openDir(t, dir)
		if _, err := acquire(b, "k", time.Minute, false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := b.Acquire(ctx, backend.Request{Key: "k", Owner: "waiter", TTL: time.Minute, Wait: true}) // needs an inbox
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for _, name := range list(t, dir) {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != c.file {
				t.Errorf("directory %v: %s has %v (%v), want %v", c.dir, name, info.Mode().Perm(), err, c.file)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, markFile+".*")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", plain, filepath.Join(plain, "below")} {
		if b, err := Open(t.Context(), dir); !errors.Is(err, backend.ErrInvalid) && !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%q: %v", dir, err)
			if err == nil {
				b.Close()
			}
		}
	}
	if b, err := Open(t.Context(), "/proc"); err == nil {
		b.Close()
		t.Error("opened /proc, where no file can be made")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

// A bucket whose first line names another format is refused, and stays unchanged.
func TestBucketFileOfAnotherFormat(t *testing.T) {
	dir := t.TempDir()
	b := openDir(t, dir)
	for _, format := range []int{folderFormat - 1, folderFormat + 1, 10 * folderFormat} {
		line := strings.Replace(string(fileHeader), fmt.Sprint(folderFormat), fmt.Sprint(format), 1)
		content := append([]byte(line), make([]byte, pageSize)...)
		path := filepath.Join(dir, bucketName("k"))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, shared := range []bool{false, true} {
			r := backend.Request{Key: "k", Owner: backend.NewOwner(), TTL: time.Minute, Shared: shared}
			if _, err := b.Acquire(t.Context(), r); !errors.Is(err, backend.ErrUnsupported) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("format %d: %v, want ErrUnsupported", format, err)
			}
		}
		if _, err := b.Inspect(t.Context(), "k"); !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("inspect: %v, want ErrUnsupported", err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, content) {
			t.Errorf("format %d: the file has changed (%v)", format, err)
		}
	}
}

// If a waiter's FIFO or record is removed, the waiter is still granted the key.
func TestWaiterHealsItself(t *testing.T) {
	t.Parallel()
	for _, remove := range []string{inboxPrefix + "*", "*"} {
		dir := t.TempDir()
		b, other := openDir(t, dir), openDir(t, dir)
		l, err := acquire(b, "k", time.Minute, false)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() {
			_, err := acquire(other, "k", time.Minute, true)
			got <- err
		}()
		for h := (backend.Holder{}); h.Waiters == 0; {
			if h, err = b.Inspect(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		names, _ := filepath.Glob(filepath.Join(dir, remove))
		for _, name := range names {
			os.Remove(name)
		}
		_ = l.Release(t.Context()) // ErrLost if its record was removed
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("removed %q: the waiter never gets its turn", names)
		}
	}
}
