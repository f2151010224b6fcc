//go:build linux

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
)

// On a full disk, keys of new buckets are refused. The attempts leave no goroutines, and no files except one for each
// bucket and one inbox. Held leases can still be renewed and released. When the disk has room again, the key is
// granted.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	c := start(t, t.TempDir(), "full", diskVariable+"=256k")
	last := ""
	for line := range c.out {
		if line == "error mount operation not permitted" {
			t.Skip(line)
		}
		if last = line; line != "done" {
			t.Error(line)
		}
	}
	if last != "done" {
		t.Error("the child has not reached its end")
	}
}

func full(b *file.Backend) {
	ctx := context.Background()
	dir := os.Getenv(dirVariable)
	l, err := b.Acquire(ctx, request("held", time.Minute, false))
	if err != nil {
		fmt.Println("held:", err)
		return
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 512))
	}
	fill.Close()
	if !errors.Is(err, unix.ENOSPC) {
		fmt.Println("the disk is not full:", err)
	}
	count := func() int {
		all, err := os.ReadDir(dir)
		if err != nil {
			fmt.Println(err)
		}
		return len(all)
	}
	files, goroutines := count(), runtime.NumGoroutine()
	have := []string{file.BucketName("held"), file.BucketName("")} // Open has created the second one
	for i := range 2000 {
		key := fmt.Sprint("new ", i)
		if slices.Contains(have, file.BucketName(key)) {
			continue // this bucket has room
		}
		if _, err := b.Acquire(ctx, request(key, time.Minute, i%2 == 0)); !errors.Is(err, unix.ENOSPC) {
			fmt.Println("on a full disk:", err)
			return
		}
	}
	if n := count(); n > files+file.Buckets+1 { // one for each bucket, and the inbox for the waiters
		fmt.Println("files left by 2000 tries:", n-files)
	}
	if n := runtime.NumGoroutine(); n > goroutines+10 {
		fmt.Println("goroutines left by 2000 tries:", n-goroutines)
	}
	if err := l.Renew(ctx, time.Minute); err != nil {
		fmt.Println("renew:", err)
	}
	if _, err := b.Acquire(ctx, request("held", time.Minute, false)); !errors.Is(err, backend.ErrHeld) {
		fmt.Println("the key that is held:", err)
	}
	stoppedOnFullDisk(ctx, filepath.Join(dir, file.BucketName("held")), l)
	if err := l.Release(ctx); err != nil {
		fmt.Println("release:", err)
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		fmt.Println(err)
	}
	if _, err := b.Acquire(ctx, request("new 0", time.Minute, true)); err != nil {
		fmt.Println("with room again:", err)
	}
	fmt.Println("done")
}

// stoppedOnFullDisk locks the bucket of l, like a process that is stopped with the bucket locked. The lock cannot be
// broken on a full disk. When it is free again, the bucket can be used.
func stoppedOnFullDisk(ctx context.Context, bucket string, l backend.Lease) {
	fd, err := unix.Open(bucket, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Flock(fd, unix.LOCK_EX)
	}
	if err != nil {
		fmt.Println("lock the bucket:", err)
		return
	}
	bound, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := l.Renew(bound, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		fmt.Println("renew while the bucket is locked:", err)
	}
	unix.Close(fd)
	bound, cancel = context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := l.Renew(bound, time.Minute); err != nil {
		fmt.Println("renew when the bucket's lock is free again:", err)
	}
}
