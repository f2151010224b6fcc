package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
)

// The check comes first in the transaction that writes. A holder that was stopped for longer than its lease is refused,
// and changes nothing.
func ExampleTable() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://app@localhost/shop") // with _ "github.com/jackc/pgx/v5/stdlib"
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fences := fence.NewTable(fence.Postgres, "fences")
	if err := fences.Create(ctx, db); err != nil {
		log.Fatal(err)
	}
	locks, err := lock.Open(ctx, "", lock.Require(lock.Need{Fencing: lock.FencingRestart}))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Do(ctx, "account/7", func(ctx context.Context, l *lock.Lease) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fences.Check(ctx, tx, "account/7", l.Token()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance - 10 WHERE id = 7`); err != nil {
			return err
		}
		return tx.Commit()
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("somebody else has the account now: ", err)
	}
}

// The row that is written also keeps the token.
func ExampleColumn() {
	account := fence.NewColumn(fence.MySQL, "account", "id", "fence")
	withdraw := func(ctx context.Context, tx *sql.Tx, id, amount int64, token uint64) error {
		if err := account.Check(ctx, tx, id, token); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance - ? WHERE id = ?`, amount, id)
		return err
	}
	_ = withdraw
}

func ExampleGuard() {
	var guard fence.Guard
	move := func(token uint64, to string) {
		err := guard.Do(token, func() error {
			fmt.Println("moving to", to)
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	move(256, "A")
	move(512, "B") // a later holder
	move(256, "C") // the first one, too late
	// Output:
	// moving to A
	// moving to B
	// stale fencing token 256: 512 was seen
}

// A server checks the tokens of its clients, which send them in a header.
func Example_http() {
	var guard fence.Guard // a server with a database checks in the transaction that writes
	value := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := strconv.ParseUint(r.Header.Get("Fencing-Token"), 10, 64)
		if err != nil {
			http.Error(w, "no fencing token", http.StatusPreconditionRequired)
			return
		}
		err = guard.Do(token, func() error {
			value = r.URL.Query().Get("value")
			return nil
		})
		switch {
		case errors.Is(err, fence.ErrStale):
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
		case errors.Is(err, lock.ErrInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	defer server.Close()

	put := func(token, value string) {
		r, err := http.NewRequest(http.MethodPut, server.URL+"?value="+value, nil)
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("Fencing-Token", token)
		answer, err := server.Client().Do(r)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(token, answer.Status)
	}
	put("512", "new")
	put("256", "old")
	put("", "none")
	fmt.Println(value)
	// Output:
	// 512 200 OK
	// 256 412 Precondition Failed
	//  428 Precondition Required
	// new
}
