package etcd_test

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/etcd"
)

// An application can share its own client with its locks.
func ExampleNew() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	b, err := etcd.New(ctx, client, &etcd.Options{Namespace: "shop/locks"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close() // the client stays open
	g := b.Guarantees()
	fmt.Println("fair:", g.FIFO)
	fmt.Println("shortest ttl:", g.MinTTL)
	fmt.Println("tokens survive:", g.Fencing)
	fmt.Println("exclusion:", g.Consistency)
}

// An invalid URL fails before any request. The error does not contain the password.
func Example_url() {
	_, _, err := driver.Open(context.Background(), "etcd://app:secret@h1,h2?timeout=1")
	fmt.Println(err)
	// Output:
	// invalid: etcd url: parameter "timeout" is not a positive duration, as in 10s
}
