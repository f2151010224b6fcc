//go:build linux

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/storetest"
)

// starve uses up the descriptors of the process. feed closes n of them.
func starve() (feed func(n int), err error) {
	if r, w, err := os.Pipe(); err == nil { // the first pipe makes the runtime open its own descriptors
		r.Close()
		w.Close()
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	limit.Cur = 128
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	var open []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) {
			break
		}
		if err != nil {
			return nil, err
		}
		open = append(open, fd)
	}
	return func(n int) {
		for _, fd := range open[:n] {
			unix.Close(fd)
		}
		open = open[n:]
	}, nil
}

// A process without a free descriptor can renew and release its leases. New leases are refused with an error that
// contains the cause.
func TestLeasesOutliveLackOfDescriptors(t *testing.T) {
	t.Parallel()
	runQuietly(t, "starved")
}

// A process without a free descriptor notifies the first waiter of a key that it releases. Otherwise, the waiter might
// poll too late, and lose its turn to the next one.
func TestReleaseWithoutDescriptorsNotifies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	c := start(t, dir, "shell")
	c.ok("try k 60000")
	turn, err := file.Enqueue(t.Context(), b, "k", false)
	if err != nil {
		t.Fatal(err)
	}
	c.ok("starve")
	c.ok("release")
	select {
	case <-turn:
	case <-time.After(storetest.Soon):
		t.Error("the waiter was not notified")
	}
}

// A process without a free descriptor keeps its spare ones, even if the files that it opens with them do not exist.
// Otherwise, the process might use them for something else, and could not renew its leases any more.
func TestSpareDescriptorsAreKept(t *testing.T) {
	t.Parallel()
	runQuietly(t, "sparing")
}

// Without free descriptors, Open fails with an error that names the cause. It succeeds once enough descriptors are
// free.
func TestOpenWithoutDescriptors(t *testing.T) {
	t.Parallel()
	runQuietly(t, "opener")
}

// runQuietly runs a child. It reports every line of the child's output as an error, except "done", which must be the
// last one.
func runQuietly(t *testing.T, role string) {
	t.Helper()
	var last string
	for last = range start(t, t.TempDir(), role).out {
		if last != "done" {
			t.Error(last)
		}
	}
	if last != "done" {
		t.Errorf("the child ended early; its last line was %q", last)
	}
}

func starved(b *file.Backend) {
	const (
		ttl    = 4 * time.Second // the machine may stand still for a second between two renewals
		rounds = 5
	)
	ctx := context.Background()
	leases := make([]backend.Lease, 3*file.Buckets)
	for i := range leases {
		l, err := b.Acquire(ctx, request(fmt.Sprint("held ", i), time.Minute, false))
		if err != nil {
			fmt.Println(err)
			return
		}
		leases[i] = l
	}
	feed, err := starve()
	if err != nil {
		fmt.Println(err)
		return
	}
	each := func(what string, f func(l backend.Lease) error) {
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := w; i < len(leases); i += 16 {
					if err := f(leases[i]); err != nil {
						fmt.Println(what, i, err)
					}
				}
			})
		}
		wg.Wait()
	}
	for range rounds {
		each("renew", func(l backend.Lease) error { return l.Renew(ctx, time.Minute) })
	}
	kept := leases[0]
	for end := time.Now().Add(ttl / 2); time.Now().Before(end); time.Sleep(ttl / 16) { // sleeps: the pace of renewals
		if err := kept.Renew(ctx, ttl); err != nil {
			fmt.Println("renew for a short time:", err)
		}
	}
	if _, err := b.Acquire(ctx, request("new", ttl, false)); !errors.Is(err, unix.EMFILE) {
		fmt.Println("acquire:", err)
	}
	if _, err := b.Acquire(ctx, request("held 0", ttl, true)); !errors.Is(err, unix.EMFILE) { // needs an inbox
		fmt.Println("acquire that waits:", err)
	}
	each("release", func(l backend.Lease) error { return l.Release(ctx) })
	feed(8)
	if _, err := b.Acquire(ctx, request("new", ttl, false)); err != nil {
		fmt.Println("acquire with free descriptors:", err)
	}
	fmt.Println("done")
}

func sparing(b *file.Backend) {
	ctx, dir := context.Background(), os.Getenv(dirVariable)
	dead, err := file.Open(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	var leases []backend.Lease
	for i := range 5 {
		key := fmt.Sprint("held ", i)
		l, err := b.Acquire(ctx, request(key, time.Minute, false))
		if err == nil {
			_, err = file.Enqueue(ctx, dead, key, false)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		leases = append(leases, l)
	}
	dead.Close() // removes the inbox of the waiters
	if _, err := starve(); err != nil {
		fmt.Println(err)
		return
	}
	stillStarved := func(after string) {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); !errors.Is(err, unix.EMFILE) {
			fmt.Println("a descriptor is free after", after)
		}
	}
	for i := range 5 {
		key := fmt.Sprint("absent ", i)
		if _, err := os.Stat(filepath.Join(dir, file.BucketName(key))); !errors.Is(err, os.ErrNotExist) {
			fmt.Println(key, "has a bucket:", err)
		}
		if _, err := b.Inspect(ctx, key); err != nil {
			fmt.Println("inspect", key, err)
		}
		stillStarved("Inspect")
	}
	for _, l := range leases {
		limited, cancel := context.WithTimeout(ctx, storetest.Soon)
		if err := l.Renew(limited, time.Minute); err != nil {
			fmt.Println("renew:", err)
		}
		cancel()
		if err := l.Release(ctx); err != nil {
			fmt.Println("release:", err)
		}
		stillStarved("Release")
	}
	fmt.Println("done")
}

func opener(dir string) int {
	feed, err := starve()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for free := range 12 {
		b, err := file.Open(context.Background(), dir)
		switch {
		case err == nil && free == 0:
			fmt.Println("opened without a descriptor")
		case err == nil:
			b.Close()
			fmt.Println("done")
			return 0
		case !errors.Is(err, unix.EMFILE), !strings.Contains(err.Error(), "too many open files"):
			fmt.Printf("%d free descriptors: %v\n", free, err)
		}
		feed(1)
	}
	fmt.Println("never opened")
	return 1
}
