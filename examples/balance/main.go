// Command balance shows a lease that the writing transaction checks. Three processes add to one account, whose balance
// they read and write in separate statements. The program stops and kills the processes at random moments. At the end,
// the balance is the sum of all entries of the ledger. Without the check it is not.
//
//	go run . -db postgres://localhost/test -for 10m
//	go run . -db postgres://localhost/test -unchecked
//
// It creates its own schema in that database, and removes it at the end.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const schema = "anylock_balance_demo"

func main() {
	url := flag.String("db", "", "the `URL` of a Postgres")
	lasts := flag.Duration("for", 10*time.Second, "how long to work")
	unchecked := flag.Bool("unchecked", false, "write without a check of the lease")
	worker := flag.Bool("worker", false, "be one of the processes (the program starts them so)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := func() error {
		db, err := open(*url)
		if err != nil {
			return err
		}
		defer db.Close()
		if *worker {
			return work(ctx, db, !*unchecked)
		}
		return run(ctx, db, *url, *lasts, *unchecked)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "balance:", err)
		os.Exit(1)
	}
}

func open(url string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["search_path"] = schema
	return stdlib.OpenDB(*config), nil
}

// run starts the processes, disturbs them, and compares the balance with the ledger.
func run(ctx context.Context, db *sql.DB, url string, lasts time.Duration, unchecked bool) error {
	const drop = `DROP SCHEMA IF EXISTS ` + schema + ` CASCADE`
	if _, err := db.ExecContext(ctx, drop+`; CREATE SCHEMA `+schema+`;
		CREATE TABLE account (balance bigint); INSERT INTO account VALUES (0); CREATE TABLE ledger (amount bigint)`); err != nil {
		return err
	}
	defer db.ExecContext(context.WithoutCancel(ctx), drop) //nolint:errcheck // the next run removes the schema
	const processes = 3
	workers := make([]*exec.Cmd, processes)
	start := func(i int) error {
		workers[i] = exec.Command(os.Args[0], "-worker", "-db="+url, "-unchecked="+strconv.FormatBool(unchecked))
		workers[i].Stderr = os.Stderr
		return workers[i].Start()
	}
	end := func(i int) {
		_ = workers[i].Process.Kill()
		_ = workers[i].Wait()
	}
	for i := range workers {
		if err := start(i); err != nil {
			return err
		}
		defer func() { end(i) }()
	}
	stops, kills := 0, 0
	for deadline := time.Now().Add(lasts); time.Now().Before(deadline) && ctx.Err() == nil; {
		time.Sleep(rand.N(ttl))
		i := rand.N(processes)
		if rand.N(4) == 0 {
			kills++
			end(i)
			if err := start(i); err != nil {
				return err
			}
			continue
		}
		stops++
		if err := stopProcess(workers[i].Process); err != nil {
			return err
		}
		time.Sleep(ttl + rand.N(ttl)) // beyond its lease
		if err := continueProcess(workers[i].Process); err != nil {
			return err
		}
	}
	for i := range workers {
		end(i)
	}
	return compare(context.WithoutCancel(ctx), db, stops, kills)
}

// compare waits for the transactions of killed processes: their ends are in the server's hands.
func compare(ctx context.Context, db *sql.DB, stops, kills int) error {
	var balance, sum, entries int64
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if _, err := tx.ExecContext(ctx, `LOCK TABLE account, ledger IN EXCLUSIVE MODE`); err != nil {
		return err
	}
	err = tx.QueryRowContext(ctx,
		`SELECT balance, (SELECT coalesce(sum(amount), 0) FROM ledger), (SELECT count(*) FROM ledger) FROM account`).
		Scan(&balance, &sum, &entries)
	if err != nil {
		return err
	}
	fmt.Printf("%d entries, %d stops, %d kills: the balance is %d, the sum of the ledger %d\n", entries, stops, kills,
		balance, sum)
	if balance != sum {
		return errors.New("the balance is wrong")
	}
	return nil
}
