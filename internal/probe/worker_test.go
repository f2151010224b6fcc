//go:build probe && linux

package probe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	_ "github.com/anylock/lock/pair"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/zookeeper"
)

// The environment variables of a process.
const (
	workerURL     = "ANYLOCK_PROBE_URL"
	workerTTL     = "ANYLOCK_PROBE_TTL"
	workerJournal = "ANYLOCK_PROBE_JOURNAL"
	workerSin     = "ANYLOCK_PROBE_SIN" // makes the process break the rules, so that the check must fail
)

const readers = 4 // of a process, beside its writer

var keys = []string{"a", "b"}

// A worker is the state of a process, with its journal.
type worker struct {
	log *os.File
	sin string
	ttl time.Duration
	ids atomic.Int64
}

// work runs the readers and the writer of this process until its input ends.
func work() {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := workUntil(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func workUntil(ctx context.Context) error {
	log, err := os.OpenFile(os.Getenv(workerJournal), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	w := &worker{log: log, sin: os.Getenv(workerSin)}
	if w.ttl, err = time.ParseDuration(os.Getenv(workerTTL)); err != nil {
		return err
	}
	locks, err := w.open(ctx)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil
	case err != nil:
		return err
	}
	var group sync.WaitGroup
	for i := range readers + 1 {
		group.Go(func() {
			for ctx.Err() == nil {
				w.cycle(ctx, locks, i == 0)
			}
		})
	}
	group.Wait()
	return locks.Close()
}

// open opens the store as soon as it can be reached.
func (w *worker) open(ctx context.Context) (*lock.Locker, error) {
	for {
		locks, err := lock.Open(ctx, os.Getenv(workerURL), lock.WithTTL(w.ttl))
		if err == nil || ctx.Err() != nil || !errors.Is(err, lock.ErrUnavailable) {
			return locks, err
		}
	}
}

// cycle acquires, holds and releases a key. Some requests do not wait, or only for a short time. A few leases are not
// renewed, and expire.
func (w *worker) cycle(ctx context.Context, locks *lock.Locker, writer bool) {
	time.Sleep(between(0, 60*time.Millisecond)) // sleeps: a pause between turns, as the probe has little processor time
	var opts []lock.AcquireOption
	if !writer || w.sin == "shared writers" {
		opts = append(opts, lock.Shared())
	}
	length := w.length()
	if length < 0 {
		opts = append(opts, lock.WithoutRenewal())
	}
	bounded, cancel := context.WithCancel(ctx)
	acquire := locks.Acquire
	switch n := rand.IntN(10); {
	case n == 0:
		acquire = locks.TryAcquire
	case n < 3:
		cancel()
		bounded, cancel = context.WithTimeout(ctx, between(time.Millisecond, 200*time.Millisecond))
	}
	defer cancel()
	key := keys[rand.IntN(len(keys))]
	lease, err := acquire(bounded, key, opts...)
	if err != nil {
		w.explain(err)
		return
	}
	w.hold(ctx, lease, writer, key, length)
	_ = lease.Release(ctx) // the lease may have been lost
}

// length returns how long to hold a lease. It is negative for a lease that must expire.
func (w *worker) length() time.Duration {
	switch n := rand.IntN(1000); {
	case n < 3:
		return -1
	case n < 10:
		return between(0, 2*w.ttl) // renewed
	case n < 500:
		return between(0, 60*time.Millisecond)
	}
	return between(0, 5*time.Millisecond)
}

// explain writes err into the journal if no fault can explain it.
func (w *worker) explain(err error) {
	for _, bad := range []error{lock.ErrInvalid, lock.ErrUnsupported, lock.ErrDeadlock, lock.ErrClosed} {
		if errors.Is(err, bad) {
			w.write("? %d %d %v", os.Getpid(), now(), err)
		}
	}
}

// hold holds a lease, and writes into the journal what the holder knows about it.
func (w *worker) hold(ctx context.Context, lease *lock.Lease, writer bool, key string, length time.Duration) {
	const step = 10 * time.Millisecond
	mode := "r"
	if writer {
		mode = "w"
	}
	id := fmt.Sprintf("%d.%d", os.Getpid(), w.ids.Add(1))
	at, deadline, ok := observe(lease)
	if !ok {
		return
	}
	w.write("+ %s %s %s %d %d %d", id, mode, key, lease.Token(), at, deadline)
	_, _ = os.Stdout.WriteString(".") // one more lease for grants
	for end := time.Now().Add(length); ; {
		remaining := time.Until(end)
		if at, deadline, ok = observe(lease); !ok {
			w.write("x %s %d", id, now())
			return
		}
		if length >= 0 && remaining <= 0 || ctx.Err() != nil {
			w.write("- %s %d", id, at)
			return
		}
		w.write("= %s %d %d", id, at, deadline)
		if length < 0 {
			remaining = step
		}
		select {
		case <-time.After(min(remaining, step)):
		case <-lease.Lost():
		}
	}
}

// observe reports whether the lease is live, with a time just before that check and the lease's deadline. If the
// process is stopped in between, the returned deadline is too early.
func observe(lease *lock.Lease) (at, deadline int64, ok bool) {
	at = now()
	deadline = at + int64(time.Until(lease.Deadline()))
	return at, deadline, lease.Err() == nil
}

// write appends one line to the journal, in one write.
func (w *worker) write(format string, args ...any) {
	if _, err := fmt.Fprintf(w.log, format+"\n", args...); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// now returns the time of a clock that all processes share, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
