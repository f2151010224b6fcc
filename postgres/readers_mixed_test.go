package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// A referee checks the grants that its callers report: nobody holds the key beside a writer, and a writer's token is
// above all earlier tokens and below all later ones.
type referee struct {
	t               *testing.T
	mu              sync.Mutex
	readers         int
	writing         bool
	newest          uint64 // the highest token
	newestExclusive uint64
	granted         map[bool]int // by Request.Shared
	together        int          // highest number of readers at one time
}

func (f *referee) began(r backend.Request, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.granted[r.Shared]++
	if f.writing || !r.Shared && f.readers > 0 {
		f.t.Errorf("shared=%v beside %d readers, writer %v", r.Shared, f.readers, f.writing)
	}
	floor := f.newest
	if r.Shared {
		f.readers, floor = f.readers+1, f.newestExclusive
		f.together = max(f.together, f.readers)
	} else {
		f.writing, f.newestExclusive = true, token
	}
	if token <= floor {
		f.t.Errorf("shared=%v: token %d after %d", r.Shared, token, floor)
	}
	f.newest = max(f.newest, token)
}

func (f *referee) ends(r backend.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Shared {
		f.readers--
	} else {
		f.writing = false
	}
}

func (f *referee) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(f.granted[false], f.granted[true])
}

// Readers and writers of several clients exclude each other under contention, whether they wait or not. One of the
// three clients has more workers than places in the server's queue.
func TestReadersAndWritersMixed(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	f := &referee{t: t, granted: make(map[bool]int)}
	const workers, least = 4, 30
	end := time.Now().Add(2 * time.Second)
	more := func() bool { // a busy machine needs longer for that many grants
		return time.Now().Before(end) || f.count() < least && time.Now().Before(end.Add(30*time.Second))
	}
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(time.Minute))
	defer cancel()
	var wg sync.WaitGroup
	for _, params := range []string{"&lock_max_leases=4", "&lock_durable=true", ""} {
		b := opened(t, s.PostgresURL()+params)
		for range workers {
			wg.Go(func() {
				for more() && !t.Failed() {
					r := req("k", 20*time.Second)
					r.Wait, r.Shared = rand.N(4) > 0, rand.N(3) > 0
					l, err := b.Acquire(ctx, r)
					if errors.Is(err, backend.ErrHeld) && !r.Wait {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					f.began(r, l.Token())
					if rand.N(2) == 0 {
						if err := l.Renew(context.Background(), 20*time.Second); err != nil {
							t.Error(err)
						}
					}
					f.ends(r)
					if err := l.Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d writers, %d readers, up to %d at a time", f.granted[false], f.granted[true], f.together)
	if f.count() < least || f.together < 2 {
		t.Error("too few grants, or no readers at a time")
	}
	if n := locks(t, c); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// Hundreds of readers share one key. The writer behind them is granted the key only after the last reader's release.
func TestHundredsOfReaders(t *testing.T) {
	storetest.Long(t, "it makes 200 connections")
	t.Parallel()
	const n = 200
	s := shared(t)
	b := opened(t, s.PostgresURL()+fmt.Sprint("&lock_max_leases=", n))
	other := opened(t, s.PostgresURL())
	leases := make([]backend.Lease, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			l, err := b.Acquire(ctx, asReader(waiting("k", time.Minute)))
			if err != nil {
				t.Error(err)
			}
			leases[i] = l
		})
	}
	if wg.Wait(); t.Failed() {
		t.FailNow()
	}
	if h, err := other.Inspect(context.Background(), "k"); err != nil || h.Shared != n || h.TTL < 30*time.Second {
		t.Errorf("%+v, %v, want %d readers", h, err, n)
	}
	writer := queueUp(t, other, waiting("k", time.Minute), 1)
	for _, l := range leases[1:] {
		release(t, l)
	}
	if h, err := other.Inspect(context.Background(), "k"); err != nil || h.Shared != 1 || h.Waiters != 1 {
		t.Errorf("%+v, %v, want one reader and one waiter", h, err)
	}
	begun := time.Now()
	release(t, leases[0])
	o := granted(t, writer, soon)
	t.Logf("the writer has the key %v after the last release began", o.At.Sub(begun))
	release(t, o.Lease)
}
