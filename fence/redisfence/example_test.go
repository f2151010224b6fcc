package redisfence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/fence/redisfence"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

var redisAddr = "localhost:6379"

// The script behind the check has keys and arguments of its own. The braces put all keys into one slot of a cluster.
func ExampleScript() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer client.Close()
	deposit := redisfence.NewScript(`return redis.call("INCRBY", KEYS[1], ARGV[1])`)
	for _, holder := range []struct {
		token  uint64 // of its lease
		amount int
	}{{256, 10}, {512, 50}, {256, 10}} {
		balance, err := deposit.Run(ctx, client, "{account/7}:fence", holder.token, []string{"{account/7}:balance"},
			holder.amount).Int()
		if errors.Is(err, fence.ErrStale) {
			fmt.Println(err)
			continue
		}
		fmt.Println(balance, err)
	}
}

func TestExampleScript(t *testing.T) {
	redisAddr = servers.Redis(t).Addr
	storetest.Example(t, ExampleScript, "10 <nil>\n60 <nil>\n\"{account/7}:fence\": stale fencing token 256: "+
		"512 was seen\n")
}
