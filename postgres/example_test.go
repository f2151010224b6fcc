package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/postgres"
)

// An application that has a configuration of pgx opens a store with it. The store opens its own connections.
func ExampleNew() {
	ctx := context.Background()
	config, err := pgx.ParseConfig("postgres://app@localhost:5432/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := postgres.New(ctx, config, &postgres.Options{Durable: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	lease, err := b.Acquire(ctx, backend.Request{Key: "invoice/42", Owner: backend.NewOwner(), TTL: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("token", lease.Token())
}

// An application that has a database, opened with the driver of pgx, opens a store with the same configuration. The
// store does not use the database's connections, and the database stays open.
func ExampleNewFromDB() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://app@localhost:5432/shop") // by github.com/jackc/pgx/v5/stdlib
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	store, err := postgres.NewFromDB(ctx, db, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println("fair:", store.Guarantees().FIFO)
}

// An invalid URL fails before any request, with an error that does not show the password.
func Example_url() {
	_, _, err := driver.Open(context.Background(), "postgres://app:secret@localhost/shop?lock_durable=maybe")
	fmt.Println(err)
	// Output:
	// invalid: postgres url: parameter "lock_durable" is not true or false
}
