package gooselock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	gooselocker "github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"

	"github.com/anylock/lock"
	gooselock "github.com/anylock/lock/adapters/goose"
	"github.com/anylock/lock/internal/adaptertest"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

const (
	migrators  = 2
	migrations = 5
)

// sources are n migrations. From the second on they do not bear to run twice at once: each adds to what it finds, slowly and outside a
// transaction.
func sources(n int) fs.FS {
	files := fstest.MapFS{"00001_account.sql": {Data: []byte(`-- +goose Up
CREATE TABLE account (balance integer);
INSERT INTO account VALUES (0);
`)}}
	for i := 2; i <= n; i++ {
		files[fmt.Sprintf("%05d_interest.sql", i)] = &fstest.MapFile{Data: []byte(`-- +goose NO TRANSACTION
-- +goose Up
SELECT pg_sleep(0.1);
UPDATE account SET balance = balance + 1;
`)}
	}
	return files
}

func connect(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func provider(t *testing.T, db *sql.DB, n int, opts ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(goose.DialectPostgres, db, sources(n), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var (
	postgres  = servers.Shared{Start: func(t testing.TB) *servers.Server { return servers.Postgres(t) }}
	databases atomic.Int64
)

// empty returns the URL of a database of the test's own.
func empty(t *testing.T) (url string) {
	t.Helper()
	url = postgres.Get(t).PostgresURL()
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := connect(t, url).ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(url, "/postgres?", "/"+name+"?", 1)
}

// database returns the URL of a database on which the first migration has run.
func database(t *testing.T) (url string) {
	t.Helper()
	url = empty(t)
	if _, err := provider(t, connect(t, url), 1).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return url
}

// migrate lets a Provider for each migrator, with connections of its own, migrate a database, all at once.
func migrate(t *testing.T, options func() []goose.ProviderOption) (applied []int, balance int, err error) {
	t.Helper()
	url := database(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range migrators {
		p := provider(t, connect(t, url), migrations, options()...)
		wg.Go(func() {
			results, failed := p.Up(t.Context())
			mu.Lock()
			defer mu.Unlock()
			applied = append(applied, len(results))
			err = errors.Join(err, failed)
		})
	}
	wg.Wait()
	if failed := connect(t, url).QueryRowContext(t.Context(), "SELECT balance FROM account").Scan(&balance); failed != nil {
		t.Fatal(failed)
	}
	return applied, balance, err
}

// right says what is wrong with how two migrators have migrated.
func right(applied []int, balance int, err error) error {
	if err != nil {
		return err
	}
	const left = migrations - 1 // of those that the database has not seen
	if all := max(applied[0], applied[1]); all != left || applied[0]+applied[1] != left || balance != left {
		return fmt.Errorf("the migrators applied %v migrations, and the balance is %d; want %d by one of them, and %d", applied, balance, left, left)
	}
	return nil
}

// Of two migrators with a client each, one migrates and the other finds nothing to do.
func TestOneMigrates(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		if err := right(migrate(t, func() []goose.ProviderOption {
			return []goose.ProviderOption{goose.WithLocker(gooselock.New(adaptertest.Open(t, url), "db/migrate"))}
		})); err != nil {
			t.Error(err)
		}
	})
}

// Without a lock they get into each other's way: TestOneMigrates would fail.
func TestWithoutLockMigrationsClash(t *testing.T) {
	t.Parallel()
	err := right(migrate(t, func() []goose.ProviderOption { return nil }))
	if err == nil {
		t.Error("two migrators without a lock did no harm, so that TestOneMigrates shows nothing")
	}
	t.Log(err)
}

// Providers of one process may share a Locker.
func TestProvidersShareALocker(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		shared := goose.WithLocker(gooselock.New(adaptertest.Open(t, url), "db/migrate"))
		if err := right(migrate(t, func() []goose.ProviderOption { return []goose.ProviderOption{shared} })); err != nil {
			t.Error(err)
		}
	})
}

// goose's own tests of lockers pass, with a client for each of five Providers and five Lockers.
func TestOwnTestsOfGoose(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		database := empty(t)
		locker := func(t *testing.T) gooselocker.Locker { return gooselock.New(adaptertest.Open(t, url), "db/migrate") }
		locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
			return provider(t, connect(t, database), migrations, goose.WithLocker(locker(t)))
		})
		locktesting.TestConcurrentLocking(t, connect(t, database), locker, 2*time.Second)
	})
}

// goose returns the errors of the lock: that another holds it, and that it was lost.
func TestErrorsReachTheCaller(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		locks, others := adaptertest.Open(t, url), adaptertest.Open(t, url)
		db := connect(t, database(t))
		up := func(locks *lock.Locker, opts ...goose.ProviderOption) error {
			opts = append(opts, goose.WithLocker(gooselock.New(locks, "db/migrate", lock.WithWait(0))))
			_, err := provider(t, db, migrations, opts...).Up(t.Context())
			return err
		}
		if err := others.Do(t.Context(), "db/migrate", func(context.Context, *lock.Lease) error {
			return up(locks)
		}); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("while another holds the key: %v", err)
		}
		breaks := goose.NewGoMigration(migrations+1, &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error {
			h, err := others.Inspect(ctx, "db/migrate")
			if err != nil {
				return err
			}
			return others.Break(ctx, "db/migrate", h.Owner)
		}}, nil)
		if err := up(locks, goose.WithGoMigrations(breaks)); !errors.Is(err, lock.ErrLost) {
			t.Errorf("after a loss: %v", err)
		}
		if err := gooselock.New(locks, "db/migrate").Unlock(t.Context(), db); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("unlock of what is not locked: %v", err)
		}
	})
}

// After a loss that its holder has not noticed, another Provider may hold the key through the same Locker. The late Unlock of the first
// does not end its lease.
func TestLateUnlock(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		others := adaptertest.Open(t, url)
		l := gooselock.New(adaptertest.Open(t, url, lock.WithTTL(5*time.Second)), "db/migrate")
		want := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		want("lock", l.Lock(t.Context(), nil), nil)
		h, err := others.Inspect(t.Context(), "db/migrate")
		want("inspect", err, nil)
		want("break", others.Break(t.Context(), "db/migrate", h.Owner), nil)
		want("the second lock", l.Lock(t.Context(), nil), nil) // when the loss is noticed
		want("the late unlock", l.Unlock(t.Context(), nil), lock.ErrLost)
		_, err = others.TryAcquire(t.Context(), "db/migrate")
		want("another's attempt", err, lock.ErrHeld)
		want("the second unlock", l.Unlock(t.Context(), nil), nil)
		want("another's attempt", others.Do(t.Context(), "db/migrate", func(context.Context, *lock.Lease) error { return nil },
			lock.WithWait(storetest.Soon)), nil)
	})
}
