package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/postgres"
	"github.com/anylock/lock/sqltable"
)

// lockOnce acquires and releases a lock of store, and closes store.
func lockOnce(t *testing.T, store backend.Backend) {
	t.Helper()
	locks, err := lock.New(store)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := locks.TryAcquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lease.Release(t.Context()), locks.Close()); err != nil {
		t.Error(err)
	}
}

// A store on an application's client can lock while the application uses all connections of the client. The client
// still works after the store is closed.
func TestOwnPgxClients(t *testing.T) {
	s := servers.Postgres(t)
	t.Run("stdlib", func(t *testing.T) {
		db, err := sql.Open("pgx", s.PostgresURL())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		store, err := postgres.NewFromDB(t.Context(), db, nil)
		if err != nil {
			t.Fatal(err)
		}
		busy, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lockOnce(t, store)
		if err := errors.Join(busy.Close(), db.PingContext(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Run("pgxpool", func(t *testing.T) {
		config, err := pgxpool.ParseConfig(s.PostgresURL() + "&pool_max_conns=1")
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.User = "nobody" // unless the hook changes it
		calls := 0
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			calls++
			c.User = "postgres"
			return nil
		}
		p, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		busy, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := p.Config()
		store, err := postgres.New(t.Context(), c.ConnConfig, &postgres.Options{BeforeConnect: c.BeforeConnect})
		if err != nil {
			t.Fatal(err)
		}
		lockOnce(t, store)
		busy.Release()
		if err := p.Ping(t.Context()); err != nil || calls < 2 {
			t.Errorf("the pool after Close: %v; the hook was called %d times", err, calls)
		}
	})
	t.Run("table", func(t *testing.T) {
		db, err := sql.Open("pgx", s.PostgresURL())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		store, err := sqltable.New(t.Context(), db, sqltable.Postgres, &sqltable.Options{Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		lockOnce(t, store)
		if err := db.PingContext(t.Context()); err != nil {
			t.Errorf("the database after Close: %v", err)
		}
	})
}

// An application that has a pgx pool creates a store from the pool's configuration, with the hook that sets the
// password.
func Example_pool() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@localhost:5432/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	c := pool.Config()
	store, err := postgres.New(ctx, c.ConnConfig, &postgres.Options{BeforeConnect: c.BeforeConnect})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println("fair:", store.Guarantees().FIFO)
}
