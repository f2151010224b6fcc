package memcached_test

import (
	"fmt"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/memcached"
)

// An application that has a client of its own gives it to New.
func ExampleNew() {
	client := memcache.New("localhost:11211")
	client.MaxIdleConns = 32
	store, err := memcached.New(client, &memcached.Options{Namespace: "myapp"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Guarantees().Consistency)
	// Output: best effort
}
