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

// sources are n migrations. From the second on they do not bear to run twice at once: each adds to what it finds,
// slowly and outside a transaction.
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
	if failed := connect(t, url).QueryRowContext(t.Context(),
		"SELECT balance FROM account").Scan(&balance); failed != nil {
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
		return fmt.Errorf("the migrators applied %v migrations, and the balance is %d; want %d by one of them, and %d",
			applied, balance, left, left)
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
			h, err := others.Ops().Inspect(ctx, "db/migrate")
			if err != nil {
				return err
			}
			return others.Ops().Break(ctx, "db/migrate", h.Owner)
		}}, nil)
		if err := up(locks, goose.WithGoMigrations(breaks)); !errors.Is(err, lock.ErrLost) {
			t.Errorf("after a loss: %v", err)
		}
		if err := gooselock.New(locks, "db/migrate").Unlock(t.Context(), db); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("unlock of what is not locked: %v", err)
		}
	})
}

// broken ends the lease of locks on the key, and returns when locks knows.
func broken(t *testing.T, locks, others *lock.Locker) {
	t.Helper()
	h, err := others.Ops().Inspect(t.Context(), "db/migrate")
	if err != nil || h.Owner == "" {
		t.Fatalf("%+v, %v", h, err)
	}
	if err := others.Ops().Break(t.Context(), "db/migrate", h.Owner); err != nil {
		t.Fatal(err)
	}
	storetest.Until(t, storetest.Soon, "the loss to be noticed", func() bool { return isFree(t, locks) == nil })
}

// isFree returns nil if locks gets the key at once.
func isFree(t *testing.T, locks *lock.Locker) error {
	t.Helper()
	return locks.Do(t.Context(), "db/migrate", func(context.Context, *lock.Lease) error { return nil }, lock.WithWait(0))
}

// After a loss, another Provider of the same Locker waits for the migrations that continue. The loss is reported to the
// Provider that had it.
func TestNoneBesideTheLost(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		others, locks := adaptertest.Open(t, url), adaptertest.Open(t, url, lock.WithTTL(5*time.Second))
		shared := goose.WithLocker(gooselock.New(locks, "db/migrate"))
		database := database(t)
		with := func(f func()) *goose.Provider {
			last := goose.NewGoMigration(migrations+1,
				&goose.GoFunc{RunDB: func(context.Context, *sql.DB) error { f(); return nil }}, nil)
			return provider(t, connect(t, database), migrations, shared, goose.WithGoMigrations(last))
		}
		begun, end := make(chan struct{}), make(chan struct{})
		first := with(func() { close(begun); <-end })
		second := with(func() { t.Error("the second Provider migrated beside the first") })
		up := func(ctx context.Context, p *goose.Provider) <-chan error {
			done := make(chan error, 1)
			go func() { _, err := p.Up(ctx); done <- err }()
			return done
		}
		firstUp := up(t.Context(), first)
		finish := sync.OnceFunc(func() { close(end) })
		t.Cleanup(finish)
		select {
		case <-begun:
		case err := <-firstUp:
			t.Fatal(err)
		}
		broken(t, locks, others)

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := <-up(ctx, second); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lock.ErrHeld) ||
			errors.Is(err, lock.ErrLost) {
			t.Errorf("the second Provider, which may not wait for the first: %v", err)
		}
		if err := isFree(t, others); err != nil {
			t.Errorf("while the first Provider goes on: %v", err)
		}
		secondUp := up(t.Context(), second)
		finish()
		if err := <-firstUp; !errors.Is(err, lock.ErrLost) {
			t.Errorf("the first Provider: %v, want %v", err, lock.ErrLost)
		}
		if err := <-secondUp; err != nil {
			t.Errorf("the second Provider: %v", err)
		}
		if err := isFree(t, others); err != nil {
			t.Errorf("after both: %v", err)
		}
	})
}

// After a loss, a Lock of the same Locker waits for the late Unlock. Each Unlock releases the lease of its own Lock.
func TestLateUnlock(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		others, locks := adaptertest.Open(t, url), adaptertest.Open(t, url, lock.WithTTL(5*time.Second))
		l := gooselock.New(locks, "db/migrate")
		want := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		want("lock", l.Lock(t.Context(), nil), nil)
		broken(t, locks, others)
		second := make(chan error, 1)
		go func() { second <- l.Lock(t.Context(), nil) }()
		select {
		case err := <-second:
			t.Fatalf("the second lock, before the unlock of the first: %v", err)
		case <-time.After(time.Second):
		}
		want("the late unlock", l.Unlock(t.Context(), nil), lock.ErrLost)
		want("the second lock", <-second, nil)
		want("another's attempt", isFree(t, others), lock.ErrHeld)
		want("the second unlock", l.Unlock(t.Context(), nil), nil)
		want("another's attempt", isFree(t, others), nil)
		want("a third unlock", l.Unlock(t.Context(), nil), lock.ErrInvalid)
	})
}

// A lock.WithWait counts for Providers of one process, too.
func TestWaitIsLimitedInTheProcess(t *testing.T) {
	onStores(t, func(t *testing.T, url string) {
		l := gooselock.New(adaptertest.Open(t, url), "db/migrate", lock.WithWait(0))
		if err := l.Lock(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := l.Lock(t.Context(), nil); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("the second lock: %v, want %v", err, lock.ErrHeld)
		}
		if err := l.Unlock(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}
