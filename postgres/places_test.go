package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

// A writer for whom no place at the server is free gets its turn behind readers that succeed each other without end.
func TestWriterWithoutPlace(t *testing.T) {
	t.Parallel()
	const readers = 12
	b := opened(t, gentleURL(t)+"&lock_max_leases=4") // two places
	key := backend.NewOwner()
	ctx, cancel := context.WithCancel(context.Background())
	var streaming, all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	streaming.Add(readers)
	for range readers {
		all.Go(func() {
			var first sync.Once
			for ctx.Err() == nil {
				l, err := b.Acquire(ctx, asReader(waiting(key, time.Minute)))
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					break
				}
				first.Do(streaming.Done)
				time.Sleep(5*time.Millisecond + rand.N(10*time.Millisecond)) // sleeps: how long a reader holds the key
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
			first.Do(streaming.Done)
		})
	}
	streaming.Wait()
	o := granted(t, startAcquire(context.Background(), b, waiting(key, time.Minute)), soon)
	release(t, o.Lease)
}

// Places are handed on in the order of the first refusals, and a waiter that leaves the line delays nobody.
func TestPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := places{free: 1}
		first, second, third, fourth := p.enter(), p.enter(), p.enter(), p.enter()
		if !first.isReady() || second.isReady() {
			t.Fatal("one place, and not the first to enter has it")
		}
		const pause = time.Second
		begun := time.Now()
		for _, w := range []*place{third, second, fourth} {
			if err := w.wait(ctx, pause); err != nil || w.isReady() {
				t.Fatal(err, w.isReady())
			}
		}
		if took := time.Since(begun); took != 3*pause {
			t.Errorf("waited %v, want three pauses", took)
		}
		waited := make(chan time.Duration)
		go func() {
			begun := time.Now()
			_ = second.wait(ctx, time.Hour)
			waited <- time.Since(begun)
		}()
		synctest.Wait()
		third.leave()
		first.leave()
		if took := <-waited; took != 0 || !second.isReady() || fourth.isReady() {
			t.Errorf("after %v: second %v, fourth %v", took, second.isReady(), fourth.isReady())
		}
		cancel()
		if err := fourth.wait(ctx, pause); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if late := p.enter(); late.isReady() {
			t.Error("a place was given out twice")
		} else {
			late.leave() // it has not stood in line
		}
		second.leave()
		fourth.leave()
		if last := p.enter(); !last.isReady() || p.free != 0 || len(p.line) != 0 {
			t.Errorf("the place is lost: %d free, %d in line", p.free, len(p.line))
		}
	})
}
