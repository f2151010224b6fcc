//go:build linux || darwin

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
)

// Two programs on one host that open the same directory exclude each other.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	alice, err := file.Open(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer alice.Close()
	bob, err := file.Open(ctx, dir) // in another process
	if err != nil {
		fmt.Println(err)
		return
	}
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
