package locktests

import (
	"context"
	"fmt"
	"log"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis"
)

var redisAddr = "localhost:6379"

// An application uses its own Redis client for locks. Other stores have a similar function New.
func Example_client() {
	ctx := context.Background()
	client := goredis.NewClient(&goredis.Options{Addr: redisAddr, ContextTimeoutEnabled: true})
	defer client.Close()

	store, err := redis.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := lock.New(store)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close() // the client stays open

	err = locks.Do(ctx, "invoice/42", func(ctx context.Context, l *lock.Lease) error {
		fmt.Println("alone, until the lock is lost or this returns:", l.Key())
		return ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
}

func TestExampleClient(t *testing.T) {
	redisAddr = servers.Redis(t).Addr
	storetest.Example(t, Example_client, "alone, until the lock is lost or this returns: invoice/42\n")
}
