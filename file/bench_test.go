//go:build linux

package file_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
)

func BenchmarkUncontended(b *testing.B) {
	c := open(b, b.TempDir())
	r := request("k", time.Minute, false)
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Acquire(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	l := mustTry(b, open(b, b.TempDir()), "k", time.Minute)
	for b.Loop() {
		if err := l.Renew(context.Background(), time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTryHeld(b *testing.B) {
	dir := b.TempDir()
	mustTry(b, open(b, dir), "k", time.Hour)
	c := open(b, dir)
	for b.Loop() {
		if _, err := try(c, "k", time.Minute); err == nil {
			b.Fatal("granted")
		}
	}
}

// Two processes hand the key back and forth. The benchmark reports the time for one turn.
func BenchmarkHandOff(b *testing.B) {
	dir := b.TempDir()
	c := open(b, dir)
	other := start(b, dir, "taker")
	other.answer() // it holds the key, or is in the queue
	b.ReportAllocs()
	for b.Loop() {
		// The other process waits whenever this one holds the key. So each round is two turns: to the other process and back.
		l, err := c.Acquire(context.Background(), request("k", time.Minute, true))
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(2*b.N), "µs/turn")
}

// taker acquires and releases the key repeatedly until its input ends.
func taker(b *file.Backend) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			l, err := b.Acquire(ctx, request("k", time.Minute, true))
			if err != nil {
				return
			}
			l.Release(context.Background())
		}
	}()
	os.Stdout.WriteString("ready\n")
	os.Stdin.Read(make([]byte, 1))
	cancel()
	<-done
}

// Each key is used once, as by jobs that have their own names.
func BenchmarkDistinct(b *testing.B) {
	c := open(b, b.TempDir())
	var next atomic.Int64
	for range 1500 { // creates the files of all buckets
		l, err := try(c, "key "+strconv.FormatInt(next.Add(1), 10), time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		l.Release(context.Background())
	}
	for _, workers := range []int{1, 8, 64} {
		b.Run(strconv.Itoa(workers), func(b *testing.B) {
			cycle(b, c, workers, func() backend.Request {
				return request("key "+strconv.FormatInt(next.Add(1), 10), time.Minute, false)
			})
		})
	}
}

// Readers of one key acquire and release it concurrently.
func BenchmarkReaders(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(strconv.Itoa(workers), func(b *testing.B) {
			c := open(b, b.TempDir())
			b.ResetTimer()
			cycle(b, c, workers, func() backend.Request { return sharedRequest(time.Minute, false) })
		})
	}
}

// cycle lets workers goroutines acquire and release the requests that next returns, b.N times in all.
func cycle(b *testing.B, c backend.Backend, workers int, next func() backend.Request) {
	var n atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n.Add(1) <= int64(b.N) {
				l, err := c.Acquire(context.Background(), next())
				if err == nil {
					err = l.Release(context.Background())
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Processes contend for one key. The benchmark reports the mean time between grants.
func BenchmarkContended(b *testing.B) {
	for _, processes := range []int{2, 8} {
		b.Run(strconv.Itoa(processes), func(b *testing.B) {
			dir := b.TempDir()
			var all []*child
			for range processes {
				c := start(b, dir, "contender")
				c.answer() // it is ready
				all = append(all, c)
			}
			each := max(b.N/processes, 1)
			b.ResetTimer()
			for _, c := range all {
				c.send("%d", each)
			}
			for _, c := range all {
				c.answer()
			}
			b.StopTimer()
			for _, c := range all {
				c.end()
			}
		})
	}
}

// contender reads a number, acquires and releases the key that many times, and prints "done".
func contender(b *file.Backend) {
	os.Stdout.WriteString("ready\n")
	var times int
	fmt.Scan(&times)
	for range times {
		l, err := b.Acquire(context.Background(), request("k", time.Minute, true))
		if err != nil {
			fmt.Println("error", err)
			return
		}
		l.Release(context.Background())
	}
	fmt.Println("done")
}
