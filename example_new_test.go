package lock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// Every store has a New or Open. Where the store can use a client that the application owns, New takes the client:
// redis.New(ctx, client, nil), for example.
func ExampleNew() {
	ctx := context.Background()
	locks, err := lock.New(memory.New())
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Do(ctx, "invoice/42", func(ctx context.Context, l *lock.Lease) error {
		fmt.Println("alone, until the lock is lost or this returns:", l.Key())
		return ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: alone, until the lock is lost or this returns: invoice/42
}
