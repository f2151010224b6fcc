package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/memory"
)

// A leader keeps its key for as long as it can. The other candidates wait in the queue for the key: here in one
// process, otherwise on other hosts.
func ExampleLocker_Do_election() {
	locks, err := lock.Open(context.Background(), "memory:", lock.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	// campaign leads whenever it is elected, until ctx ends or lead says that it is enough.
	campaign := func(ctx context.Context, lead func(ctx context.Context, token uint64) error) {
		for ctx.Err() == nil {
			err := locks.Do(ctx, "leader", func(ctx context.Context, l *lock.Lease) error {
				return lead(ctx, l.Token()) // ctx ends when another may lead
			})
			switch {
			case err == nil:
				return
			case errors.Is(err, lock.ErrLost): // stand in line again
			case ctx.Err() == nil: // the store is away
				time.Sleep(time.Second) // sleeps: a pause between attempts
			}
		}
	}

	var first uint64
	campaign(context.Background(), func(_ context.Context, token uint64) error {
		first = token
		fmt.Println("a leads")
		return nil
	})
	campaign(context.Background(), func(_ context.Context, token uint64) error {
		fmt.Println("b leads, with a higher token:", token > first)
		return nil
	})
	// Output:
	// a leads
	// b leads, with a higher token: true
}

// On SIGTERM, a process acquires no new lock and waits for its holders, so that every key is free when it ends.
func ExampleLocker_Shutdown() {
	stopping, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	locks, err := lock.Open(context.Background(), "memory:")
	if err != nil {
		log.Fatal(err)
	}

	var worker sync.WaitGroup
	worker.Go(func() {
		err := locks.Do(context.Background(), "job", func(context.Context, *lock.Lease) error {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(syscall.SIGTERM) // as the system does
			}
			<-stopping.Done()
			fmt.Println("the job is finished in spite of SIGTERM")
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	})

	<-stopping.Done()
	patience, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := locks.Shutdown(patience); err != nil {
		fmt.Println("keys that are still held stay taken until their TTL:", err)
	}
	worker.Wait()
	_, err = locks.TryAcquire(context.Background(), "next")
	fmt.Println("no new lock:", errors.Is(err, lock.ErrClosed))
	// Output:
	// the job is finished in spite of SIGTERM
	// no new lock: true
}
