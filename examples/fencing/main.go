// Command fencing shows what a fencing token is for. Two tellers deposit into one account, one after the other under a
// lock. The first is stopped beyond its lease and then continues. Without the check of its token, the second
// teller's deposit is lost.
//
//	go run . -db postgres://localhost/test
//
// It creates its own schema in that database, and removes it at the end.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

func main() {
	url := flag.String("db", "", "the `URL` of a Postgres")
	as := flag.String("teller", "", "be the teller with this `name` (the program starts its tellers so)")
	locks := flag.String("locks", "", "the `URL` of the teller's lock store")
	amount := flag.Int("amount", 0, "what the teller deposits")
	fenced := flag.Bool("fenced", false, "the teller's writes are fenced")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := func() error {
		db, err := open(*url)
		if err != nil {
			return err
		}
		defer db.Close()
		if *as != "" {
			return teller{name: *as, db: db, fenced: *fenced}.work(ctx, *locks, *amount)
		}
		for _, fenced := range []bool{false, true} {
			if err := show(ctx, db, *url, fenced); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

const schema = "anylock_fencing_demo"

func open(url string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["search_path"] = schema
	return stdlib.OpenDB(*config), nil
}

// show lets teller A be stopped while B works, and prints what becomes of the balance.
func show(ctx context.Context, db *sql.DB, url string, fenced bool) error {
	fmt.Println(map[bool]string{false: "Without the fence:", true: "With the fence:"}[fenced])
	if _, err := db.ExecContext(ctx, `DROP SCHEMA IF EXISTS `+schema+` CASCADE; CREATE SCHEMA `+schema+`;
		CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL); INSERT INTO account VALUES (7, 100)`); err != nil {
		return err
	}
	defer db.ExecContext(context.WithoutCancel(ctx), `DROP SCHEMA `+schema+` CASCADE`)
	if err := fences.Create(ctx, db); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fencing")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := func(name string, amount int) (*child, error) {
		return startChild(ctx, "-teller", name, "-amount", strconv.Itoa(amount), "-db", url, "-locks", "file://"+dir,
			"-fenced="+strconv.FormatBool(fenced))
	}

	a, err := start("A", 10)
	if err != nil {
		return err
	}
	defer a.end()
	if err := a.print(1); err != nil { // it has read the balance
		return err
	}
	fmt.Println("  A is stopped")
	if err := stopProcess(a.cmd.Process); err != nil {
		return err
	}
	b, err := start("B", 50) // gets the lock when A's lease has ended
	if err != nil {
		return err
	}
	defer b.end()
	if err := b.goOn(); err != nil {
		return err
	}
	fmt.Println("  A continues")
	if err := continueProcess(a.cmd.Process); err != nil {
		return err
	}
	if err := a.goOn(); err != nil {
		return err
	}
	var balance int
	if err := db.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil {
		return err
	}
	fmt.Printf("  The balance is %d\n", balance)
	return nil
}
