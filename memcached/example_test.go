package memcached_test

import (
	"fmt"

	"github.com/anylock/lock/memcached"
)

// An application that does not want a URL gives the address to New.
func ExampleNew() {
	store, err := memcached.New("localhost:11211", &memcached.Options{Namespace: "myapp"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Guarantees().Consistency)
	// Output: best effort
}
