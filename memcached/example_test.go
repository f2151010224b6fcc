package memcached_test

import (
	"context"
	"fmt"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/memcached"
)

// An application with a gomemcache client passes the client's settings and the server's address to New.
func ExampleNew() {
	ctx := context.Background()
	client := memcache.New("localhost:11211")
	defer client.Close()
	store, err := memcached.New(ctx, "localhost:11211", &memcached.Options{
		Timeout:     client.Timeout,
		DialContext: client.DialContext,
		MaxConns:    8,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Guarantees().Consistency)
}
