package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/memory" // the scheme memory:
)

func Example() {
	ctx := context.Background()
	locks, err := lock.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Do(ctx, "invoice/42", func(ctx context.Context, l *lock.Lease) error {
		// ctx ends when the lock is lost. A database that remembers the highest token it has seen can refuse a late
		// write.
		fmt.Println("charging once, token > 0:", l.Token() > 0)
		return ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: charging once, token > 0: true
}

func ExampleLocker_TryAcquire() {
	ctx := context.Background()
	locks, err := lock.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	lease, err := locks.TryAcquire(ctx, "nightly")
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := lease.Release(ctx); err != nil {
			log.Print(err) // ErrLost: the lease ended before the work did
		}
	}()

	_, err = locks.TryAcquire(ctx, "nightly")
	var held *lock.HeldError
	if errors.Is(err, lock.ErrHeld) && errors.As(err, &held) {
		fmt.Println("skipped: the other run has it:", held.Holder.Owner == lease.Owner())
	}
	// Output: skipped: the other run has it: true
}

func ExampleLocker_Acquire() {
	ctx := context.Background()
	locks, err := lock.Open(ctx, "memory:", lock.WithTTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	lease, err := locks.Acquire(ctx, "report", lock.WithWait(5*time.Second), lock.WithMaxHold(time.Hour))
	if errors.Is(err, lock.ErrHeld) {
		fmt.Println("still held after five seconds")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-lease.Lost():
		fmt.Println("stop writing: another may hold it now")
	default:
		fmt.Println("held for half a minute more", time.Until(lease.Deadline()) > 30*time.Second)
	}
	if err := lease.Release(ctx); errors.Is(err, lock.ErrLost) {
		fmt.Println("it was lost before the release")
	}
	// Output: held for half a minute more true
}

func ExampleReentrant() {
	ctx := context.Background()
	locks, err := lock.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Do(ctx, "account/7", func(ctx context.Context, _ *lock.Lease) error {
		_, err := locks.Acquire(ctx, "account/7")
		fmt.Println("again:", errors.Is(err, lock.ErrDeadlock))
		inner, err := locks.Acquire(ctx, "account/7", lock.Reentrant())
		if err != nil {
			return err
		}
		fmt.Println("on purpose: ok")
		return inner.Release(ctx)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// again: true
	// on purpose: ok
}

// Readers hold the key side by side, and a writer holds it alone.
func ExampleShared() {
	ctx := context.Background()
	locks, err := lock.Open(ctx, "memory:", lock.Require(lock.Need{Shared: true}))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	read := func(ctx context.Context, _ *lock.Lease) error {
		_, err := locks.TryAcquire(context.Background(), "catalog") // another goroutine that wants to write
		var held *lock.HeldError
		if errors.As(err, &held) {
			fmt.Println("readers:", held.Holder.Shared)
		}
		_, err = locks.Acquire(ctx, "catalog") // a reader that wants to write would wait for itself
		fmt.Println("upgrade refused:", errors.Is(err, lock.ErrDeadlock))
		return nil
	}
	other, err := locks.Acquire(ctx, "catalog", lock.Shared())
	if err != nil {
		log.Fatal(err)
	}
	if err := locks.Do(ctx, "catalog", read, lock.Shared()); err != nil {
		log.Fatal(err)
	}
	if err := other.Release(ctx); err != nil {
		log.Fatal(err)
	}
	err = locks.Do(ctx, "catalog", func(context.Context, *lock.Lease) error {
		_, err := locks.TryAcquire(context.Background(), "catalog", lock.Shared())
		fmt.Println("reader beside a writer refused:", errors.Is(err, lock.ErrHeld))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// readers: 2
	// upgrade refused: true
	// reader beside a writer refused: true
}

func ExampleRequire() {
	_, err := lock.Open(context.Background(), "memory:", lock.Require(lock.Need{Reach: lock.ReachNetwork, FIFO: true}))
	fmt.Println(err)
	// Output: lock: open (memory): not supported by this store: reach=network is required, but owners exclude each other only within one process
}

func ExampleConfig() {
	c := lock.Config{
		URL:     "memory:", // from a file, with tags for JSON and YAML
		Prefix:  "billing/",
		TTL:     lock.Duration(time.Minute),
		Require: lock.Need{FIFO: true},
	}
	locks, err := c.Open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	lease, err := locks.Acquire(context.Background(), "run")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Key())
	if err := lease.Release(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: billing/run
}
