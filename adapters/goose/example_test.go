package gooselock_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/anylock/lock"
	gooselock "github.com/anylock/lock/adapters/goose"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	_ "github.com/anylock/lock/redis" // the scheme of the URL
)

// Every instance does this when it starts. One migrates; the others wait, and find nothing left to do.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	files := sources(3)

	locks, err := lock.Open(ctx, "") // $ANYLOCK_URL
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithLocker(gooselock.New(locks, "db/migrate", lock.WithWait(5*time.Minute))))
	if err != nil {
		log.Fatal(err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(len(results), "migrations")
}

func TestExample(t *testing.T) {
	t.Setenv("DATABASE_URL", empty(t))
	t.Setenv(lock.URLEnv, "redis://"+servers.Redis(t).Addr)
	storetest.Example(t, Example, "3 migrations\n")
}
