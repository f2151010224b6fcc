package zookeeper_test

import (
	"context"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/zookeeper"
)

// An application passes the servers, and the longest session to request.
func ExampleNew() {
	ctx := context.Background()
	b, err := zookeeper.New(ctx, []string{"z1:2181", "z2:2181", "z3:2181"}, &zookeeper.Options{
		Chroot:         "/apps/shop",
		SessionTimeout: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	lease, err := b.Acquire(ctx, backend.Request{Key: "invoice/42", Owner: backend.NewOwner(), TTL: 5 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := lease.Release(ctx); err != nil {
		fmt.Println(err)
	}
}

// An invalid URL fails before any request.
func Example_url() {
	_, _, err := driver.Open(context.Background(), "zookeeper://h1,h2?session_timeout=10")
	fmt.Println(err)
	// Output:
	// invalid: zookeeper url: parameter "session_timeout" is not a positive duration, as in 10s
}
