package memcached_test

import (
	"context"
	"fmt"

	"github.com/anylock/lock/memcached"
)

// An application that does not want a URL gives the address to New.
func ExampleNew() {
	ctx := context.Background()
	store, err := memcached.New(ctx, "localhost:11211", &memcached.Options{MaxConns: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Guarantees().Consistency)
}
