package pgtable

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// BenchmarkUncontended measures an acquire and a release, and for comparison two bare statements that are the minimum
// for a lease.
func BenchmarkUncontended(b *testing.B) {
	s := servers.Postgres(b, "max_connections=300")
	for _, workers := range []int{1, 8, 64} {
		store := opened(b, fmt.Sprintf("%s&timeout=30s&lock_max_conns=%d", tableURL(s), workers))
		b.Run(fmt.Sprintf("anylock/workers=%d", workers), func(b *testing.B) {
			storetest.Together(b, workers, func(w int) { storetest.Cycle(b, store, req(fmt.Sprint("k", w), time.Minute)) })
		})
		b.Run(fmt.Sprintf("bare/workers=%d", workers), func(b *testing.B) { bare(b, s, workers) })
	}
}

func bare(b *testing.B, s *servers.Server, workers int) {
	db, err := openDB(s, workers)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS bare (name bytea PRIMARY KEY, owner bytea, expires timestamptz)
		WITH (fillfactor = 50)`); err != nil {
		b.Fatal(err)
	}
	storetest.Together(b, workers, func(w int) {
		name, owner := []byte(fmt.Sprint("k", w)), []byte("an owner of forty-eight bytes, as others have them")
		if _, err := db.ExecContext(ctx, `INSERT INTO bare AS b VALUES ($1, $2, now() + interval '1 min') ON CONFLICT (name) DO UPDATE
			SET owner=excluded.owner, expires=excluded.expires WHERE b.expires<now()`, name, owner); err != nil {
			b.Error(err)
		}
		if _, err := db.ExecContext(ctx, `UPDATE bare SET expires='-infinity' WHERE name=$1 AND owner=$2`, name,
			owner); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkRenewMany renews 10 000 leases in one call.
func BenchmarkRenewMany(b *testing.B) {
	s := servers.Postgres(b)
	store := opened(b, tableURL(s)+"&timeout=1m")
	list := storetest.HoldMany(b, store, 0, 10_000, time.Hour)
	defer storetest.ReleaseMany(list)
	storetest.RenewMany(b, store, list)
}

// BenchmarkWaiters measures the cost of one second of polling by the waiters of one process, each with its own key.
func BenchmarkWaiters(b *testing.B) {
	s := servers.Postgres(b)
	store := opened(b, tableURL(s)+"&timeout=1m")
	db, err := openDB(s, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			list := storetest.HoldMany(b, store, 0, n, time.Hour)
			ctx, cancel := context.WithCancel(context.Background())
			var waiters sync.WaitGroup
			for i := range n {
				waiters.Go(func() { _, _ = store.Acquire(ctx, waiting(fmt.Sprint("many", i), time.Hour)) })
			}
			before, began, sleeps := polls(b, db), time.Now(), processorTime(b)
			for b.Loop() {
				time.Sleep(time.Second) // sleeps: the load during this second is measured
			}
			spent := processorTime(b) - sleeps
			n := float64(polls(b, db) - before)
			b.ReportMetric(n/time.Since(began).Seconds(), "polls/s")
			b.ReportMetric(float64(spent.Microseconds())/n, "client-µs/poll")
			cancel()
			waiters.Wait()
			storetest.ReleaseMany(list)
		})
	}
}

// polls returns the number of transactions that the server has committed.
func polls(b *testing.B, db *sql.DB) (n int64) {
	b.Helper()
	if err := db.QueryRow(`SELECT xact_commit FROM pg_stat_database WHERE datname='postgres'`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
