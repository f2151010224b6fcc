package postgres_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/postgres"
)

var databaseURL = "postgres://app@localhost:5432/shop"

// Each update writes the holder's token into the row, in the same statement. If a holder was paused until its lease
// ended and a later holder has written, its update changes nothing and fails. Package fence does the same for
// transactions of several statements.
func Example_fencedUpdate() {
	ctx := context.Background()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		log.Fatal(err)
	}
	db, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, `CREATE TABLE account (id bigint PRIMARY KEY, balance bigint, fence bigint DEFAULT 0);
		INSERT INTO account VALUES (7, 100)`); err != nil {
		log.Fatal(err)
	}
	set := func(balance int64, token uint64) error {
		tag, err := db.Exec(ctx, `UPDATE account SET balance = $1, fence = $2 WHERE id = 7 AND fence <= $2`, balance,
			int64(token))
		if err == nil && tag.RowsAffected() == 0 {
			return fmt.Errorf("a later holder has written: %w", lock.ErrLost)
		}
		return err
	}

	store, err := postgres.New(ctx, config, &postgres.Options{Durable: true})
	if err != nil {
		log.Fatal(err)
	}
	locks, err := lock.New(store)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	var first uint64 // the first holder's token
	for _, balance := range []int64{90, 80} {
		err := locks.Do(ctx, "account/7", func(_ context.Context, l *lock.Lease) error {
			if first == 0 {
				first = l.Token()
			}
			return set(balance, l.Token())
		})
		fmt.Println(balance, err)
	}
	fmt.Println("the first holder, too late:", set(70, first))
}

func TestExampleFencedUpdate(t *testing.T) {
	databaseURL = servers.Postgres(t).PostgresURL()
	storetest.Example(t, Example_fencedUpdate,
		"90 <nil>\n80 <nil>\nthe first holder, too late: a later holder has written: lease lost\n")
}
