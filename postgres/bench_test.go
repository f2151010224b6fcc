package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// BenchmarkSerial measures one goroutine that acquires and releases one key, and the bare functions on one connection
// for comparison.
func BenchmarkSerial(b *testing.B) {
	s := servers.Postgres(b)
	ctx := context.Background()
	bare := dialed(b, s.PostgresURL())
	b.Run("op=bare-lock-unlock", func(b *testing.B) {
		for b.Loop() {
			bareRound(b, bare, 1)
		}
	})
	for _, url := range []string{"", "&lock_durable=true"} {
		store := opened(b, s.PostgresURL()+url)
		b.Run("op=acquire-release/url="+url, func(b *testing.B) {
			for b.Loop() {
				release(b, acquire(b, store, req("k", 10*time.Second)))
			}
		})
		b.Run("op=renew/url="+url, func(b *testing.B) {
			l := acquire(b, store, req("k", 10*time.Second))
			defer release(b, l)
			for b.Loop() {
				if err := l.Renew(ctx, 10*time.Second); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSerialPaired alternates between the store and the bare functions, so that both run under the same load. It
// reports the ratio of the bare time to the store's time, for the totals and for the medians. A busy machine affects
// the medians less.
func BenchmarkSerialPaired(b *testing.B) {
	s := servers.Postgres(b)
	bare, store := dialed(b, s.PostgresURL()), opened(b, s.PostgresURL())
	var tookBare, tookOurs []time.Duration
	for b.Loop() {
		begun := time.Now()
		bareRound(b, bare, 1)
		middle := time.Now()
		l, err := store.Acquire(context.Background(), req("k", 10*time.Second))
		if err == nil {
			err = l.Release(context.Background())
		}
		if err != nil {
			b.Fatal(err)
		}
		tookBare = append(tookBare, middle.Sub(begun))
		tookOurs = append(tookOurs, time.Since(middle))
	}
	sum := func(took []time.Duration) (sum time.Duration) {
		for _, d := range took {
			sum += d
		}
		slices.Sort(took)
		return sum
	}
	b.ReportMetric(float64(sum(tookBare))/float64(sum(tookOurs)), "ours/bare")
	n := len(tookBare) / 2
	b.ReportMetric(float64(tookBare[n])/float64(tookOurs[n]), "ours/bare-p50")
	b.ReportMetric(float64(tookOurs[n].Microseconds()), "ours-p50-µs")
}

// BenchmarkHandOff passes one key around several clients, each with its own connections, and measures the bare
// functions for comparison.
func BenchmarkHandOff(b *testing.B) {
	const clients = 8
	s := servers.Postgres(b)
	b.Run(fmt.Sprintf("op=bare-hand-off/workers=%d", clients), func(b *testing.B) {
		conns := make([]*pgx.Conn, clients)
		for i := range conns {
			conns[i] = dialed(b, s.PostgresURL())
		}
		storetest.Together(b, clients, func(i int) { bareRound(b, conns[i], 2) })
	})
	b.Run(fmt.Sprintf("op=hand-off/workers=%d", clients), func(b *testing.B) {
		stores := make([]*Backend, clients)
		for i := range stores {
			stores[i] = opened(b, s.PostgresURL())
		}
		storetest.Together(b, clients, func(i int) {
			storetest.Cycle(b, stores[i], waiting("k", time.Minute))
		})
	})
}

// BenchmarkDistinct runs 64 workers, each with its own key, on the 32 connections of one client. It alternates between
// the store and the bare functions. It reports the ratio of the bare time to the store's time, and the 99th percentile
// of the time for one cycle.
func BenchmarkDistinct(b *testing.B) {
	const workers = 64
	s := servers.Postgres(b)
	store := opened(b, s.PostgresURL())
	bare := make(chan *pgx.Conn, defaultLeases)
	for range defaultLeases {
		bare <- dialed(b, s.PostgresURL())
	}
	var tookBare, tookOurs []time.Duration
	round := func(cycle func(key int)) (took []time.Duration, all time.Duration) { return roundOf(workers, cycle) }
	ours := func(key int) { storetest.Cycle(b, store, waiting(fmt.Sprint("k", key), time.Minute)) }
	round(ours) // connects
	var allBare, allOurs time.Duration
	for b.Loop() {
		took, all := round(func(key int) {
			c := <-bare
			bareRound(b, c, int64(key))
			bare <- c
		})
		tookBare, allBare = append(tookBare, took...), allBare+all
		took, all = round(ours)
		tookOurs, allOurs = append(tookOurs, took...), allOurs+all
	}
	slices.Sort(tookBare)
	slices.Sort(tookOurs)
	n := len(tookOurs)
	b.ReportMetric(float64(allBare)/float64(allOurs), "ours/bare")
	b.ReportMetric(float64(n)/allOurs.Seconds(), "ours/s")
	b.ReportMetric(float64(tookBare[n*99/100].Microseconds()), "bare-p99-µs")
	b.ReportMetric(float64(tookOurs[n*99/100].Microseconds()), "ours-p99-µs")
	b.ReportMetric(float64(tookOurs[n-1].Microseconds()), "ours-max-µs")
}

// roundOf runs workers goroutines that call cycle fifty times each. It returns the duration of each call and of the
// whole round.
func roundOf(workers int, cycle func(worker int)) (took []time.Duration, all time.Duration) {
	const cycles = 50
	took = make([]time.Duration, workers*cycles)
	begun := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range cycles {
				begun := time.Now()
				cycle(w)
				took[w*cycles+i] = time.Since(begun)
			}
		})
	}
	wg.Wait()
	return took, time.Since(begun)
}

// BenchmarkReaders alternates between 64 workers of one client that share one key and 64 writers with a key each. It
// reports the ratio of the writers' time to the readers' time.
func BenchmarkReaders(b *testing.B) {
	const workers = 64
	s := servers.Postgres(b)
	store := opened(b, s.PostgresURL())
	reader := func(int) { storetest.Cycle(b, store, asReader(waiting("k", time.Minute))) }
	writer := func(w int) { storetest.Cycle(b, store, waiting(fmt.Sprint("k", w), time.Minute)) }
	roundOf(workers, reader) // connects
	var readers, writers time.Duration
	for b.Loop() {
		_, all := roundOf(workers, writer)
		writers += all
		_, all = roundOf(workers, reader)
		readers += all
	}
	b.ReportMetric(float64(writers)/float64(readers), "readers/distinct")
	b.ReportMetric(float64(workers*50*b.N)/readers.Seconds(), "readers/s")
}

func bareRound(b *testing.B, c *pgx.Conn, key int64) {
	b.Helper()
	for _, sql := range []string{"SELECT pg_advisory_lock($1)", "SELECT pg_advisory_unlock($1)"} {
		if _, err := c.Exec(context.Background(), sql, key); err != nil {
			b.Fatal(err)
		}
	}
}
