package postgres

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// If readers that overlap without end use all connections of a client, a writer of that client still gets the key.
func TestWriterWithoutPlace(t *testing.T) {
	t.Parallel()
	const readers = 12
	b := opened(t, gentleURL(t)+"&lock_max_leases=4") // at most two may wait in the server's queue
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
	o := granted(t, startAcquire(context.Background(), b, waiting(key, time.Minute)), 6*soon)
	release(t, o.Lease)
}

// At most MaxLeases/2 waiters of a client are in the server's queue. A place is free again when its waiter leaves.
func TestPlacesInQueue(t *testing.T) {
	t.Parallel()
	for most, places := range map[int]int{4: 2, 5: 2, 32: 16} {
		p := &pool{b: &Backend{options: Options{MaxLeases: most}}, all: make(map[*session]struct{})}
		enter := func() *checkout {
			s := new(session)
			s.held = &checkout{s: s}
			p.all[s] = struct{}{}
			return s.held
		}
		var first *checkout
		for n := range places {
			h := enter()
			first = cmp.Or(first, h)
			if !p.enterServerQueue(h) {
				t.Errorf("waiter %d of a client with %d leases is not in the queue", n+1, most)
			}
		}
		next := enter()
		if p.enterServerQueue(next) {
			t.Errorf("%d waiters of a client with %d leases are in the queue", places+1, most)
		}
		p.drop(first)
		if !p.enterServerQueue(next) {
			t.Errorf("a waiter of a client with %d leases does not get the place of another one", most)
		}
	}
}

// A waiter that polls because MaxLeases/2 waiters of its client are in the queue joins the queue when one of them
// leaves.
func TestPollingWaiterJoinsQueue(t *testing.T) {
	t.Parallel()
	url := shared(t).PostgresURL()
	a, b := opened(t, url), opened(t, url+"&lock_max_leases=4")
	l := acquire(t, a, req("k", time.Minute))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := startAcquire(ctx, b, waiting("k", time.Minute))
	queued(t, a, "k", 1)
	second := startAcquire(context.Background(), b, waiting("k", time.Minute))
	queued(t, a, "k", 2)
	third := startAcquire(context.Background(), b, waiting("k", time.Minute))
	until(t, soon, "the third has polled", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return len(b.pool.all) == 3 && len(b.pool.idle) == 1
	})
	waiters := func() int {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return b.pool.countLocked(func(h *checkout) bool { return h.queued })
	}
	if n := waiters(); n != 2 {
		t.Errorf("%d waiters in the queue of the server, want half of 4", n)
	}
	cancel()
	<-first
	until(t, soon, "the third has joined", func() bool { return waiters() == 2 })
	release(t, l)
	release(t, granted(t, second, soon).Lease)
	release(t, granted(t, third, soon).Lease)
}

// Leases that were waited for do not count as waiters: however many a client holds, MaxLeases/2 more of its waiters
// join the server's queue.
func TestGrantedWaitersLeaveQueue(t *testing.T) {
	t.Parallel()
	url := shared(t).PostgresURL()
	a, b := opened(t, url), opened(t, url+"&lock_max_leases=4")
	wait := func(key string) (backend.Lease, <-chan outcome) {
		l := acquire(t, a, req(key, time.Minute))
		done := startAcquire(context.Background(), b, waiting(key, time.Minute))
		queued(t, a, key, 1)
		return l, done
	}
	var held []backend.Lease
	for _, key := range []string{"k1", "k2"} {
		l, done := wait(key)
		release(t, l)
		held = append(held, granted(t, done, soon).Lease)
	}
	l, done := wait("k3") // which only a waiter in the server's queue passes
	release(t, l)
	for _, l := range append(held, granted(t, done, soon).Lease) {
		release(t, l)
	}
}
