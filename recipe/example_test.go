package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/memory" // the scheme memory:
	"github.com/anylock/lock/recipe"
)

func ExampleLead() {
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a server
	locks, err := lock.Open(ctx, "memory:", lock.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = recipe.Lead(ctx, locks, "scheduler", func(ctx context.Context, lease *lock.Lease) error {
		leader, err := locks.Ops().Inspect(ctx, "scheduler")
		if err != nil {
			return err
		}
		fmt.Println("this process leads:", leader.Owner == lease.Owner())
		stop()       // SIGTERM, for instance
		<-ctx.Done() // or leadership is lost
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// this process leads: true
	// true
}

func ExampleAcquireAll() {
	ctx := context.Background()
	locks, err := lock.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	from, to := "account/7", "account/3"
	accounts, err := recipe.AcquireAll(ctx, locks, []string{from, to}, lock.WithWait(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer accounts.Release(ctx)

	// ends with ctx, checks the tokens
	transfer := func(ctx context.Context, fromToken, toToken uint64) error { return ctx.Err() }
	err = transfer(accounts.Context(ctx), accounts.Lease(from).Token(), accounts.Lease(to).Token())
	fmt.Println(err)

	_, err = recipe.TryAcquireAll(ctx, locks, []string{"account/1", from})
	fmt.Println(errors.Is(err, lock.ErrHeld))
	// Output:
	// <nil>
	// true
}

func ExampleSemaphore() {
	ctx := context.Background()
	locks, err := lock.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	printers, err := recipe.NewSemaphore(locks, "printers", 2)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		permit, err := printers.Acquire(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer permit.Release(ctx)
		_, number, _ := strings.Cut(permit.Key(), "/permit/")
		fmt.Println("printer", number)
	}
	_, err = printers.TryAcquire(ctx)
	fmt.Println("busy:", errors.Is(err, lock.ErrHeld))
	// Output:
	// printer 0
	// printer 1
	// busy: true
}
