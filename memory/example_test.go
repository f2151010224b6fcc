package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// Two clients of one store exclude each other, as two processes would.
func ExampleStore() {
	ctx := context.Background()
	store := memory.NewStore()
	alice, bob := store.Client(), store.Client()
	defer alice.Close()
	defer bob.Close()

	lease, err := alice.Acquire(ctx, backend.Request{Key: "report", Owner: "alice", TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = bob.Acquire(ctx, backend.Request{Key: "report", Owner: "bob", TTL: time.Minute})
	fmt.Println("bob:", errors.Is(err, backend.ErrHeld))
	fmt.Println("release:", lease.Release(ctx))
	// Output:
	// bob: true
	// release: <nil>
}
