package redis_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/redis"
)

// An application can share its own client with its locks.
func ExampleNew() {
	ctx := context.Background()
	client := goredis.NewClient(&goredis.Options{
		Addr:                  "localhost:6379",
		ContextTimeoutEnabled: true,
	})
	defer client.Close()
	b, err := redis.New(ctx, client, &redis.Options{Namespace: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close() // the client stays open
	g := b.Guarantees()
	fmt.Println("fair:", g.FIFO)
	fmt.Println("enforced by:", g.EnforcedBy)
	fmt.Println("tokens survive:", g.Fencing)
	fmt.Println("exclusion:", g.Consistency)
}

// Package lock uses a Backend like this: one owner gets the key, and the error for a second owner names the holder.
func ExampleBackend_Acquire() {
	ctx := context.Background()
	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
	defer client.Close()
	b, err := redis.New(ctx, client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	lease, err := b.Acquire(ctx, backend.Request{Key: "invoice/42", Owner: "alice", TTL: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = b.Acquire(ctx, backend.Request{Key: "invoice/42", Owner: "bob", TTL: 30 * time.Second})
	if held := (*backend.HeldError)(nil); errors.As(err, &held) {
		fmt.Println("held by", held.Holder.Owner)
	}
	if err := lease.Release(ctx); err != nil {
		fmt.Println(err)
	}
}

// An invalid URL is rejected before any request, and the error does not show the password.
func Example_url() {
	_, _, err := driver.Open(context.Background(), "redis://app:secret@h1,h2")
	fmt.Println(err)
	// Output:
	// invalid: redis url: 2 hosts instead of one; write it as in redis+sentinel://user:password@s1:26379,s2:26379,s3:26379/mymaster/0 or redis+cluster://user:password@h1:6379,h2:6379,h3:6379
}
