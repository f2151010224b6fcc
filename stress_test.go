package lock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/memory"
)

// Everything happens at once, in real time. Readers and writers hold short leases that are lost, renewed, re-entered,
// released twice, or kept for a minimum hold. Some give up waiting, and some of their Lockers are closed meanwhile. The
// token of a live lease is above the tokens of the earlier holders that it excludes, and every error is a documented
// one. At the end every key is free, and no gate or renewal remains.
func TestStressEverything(t *testing.T) {
	store := memory.NewStore()
	const keys, workers = 3, 12
	end := time.Now().Add(2 * time.Second)
	if testing.Short() {
		end = time.Now().Add(500 * time.Millisecond)
	}
	const least = 50 // grants
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		tokens [keys]struct{ writer, any uint64 } // the highest of a writer, and of anybody
		grants atomic.Int64
	)
	goesOn := func() bool {
		late := time.Since(end)
		return late < 0 || grants.Load() < least && late < 20*time.Second // the machine may have stalled
	}
	known := func(op string, err error) {
		for _, e := range []error{
			nil, lock.ErrHeld, lock.ErrUnavailable, lock.ErrLost, lock.ErrReleased, lock.ErrClosed, context.Canceled,
			context.DeadlineExceeded,
		} {
			if errors.Is(err, e) {
				return
			}
		}
		t.Errorf("%s: %v", op, err)
	}
	worker := func(l *lock.Locker) {
		for goesOn() {
			k := rand.N(keys)
			key := strconv.Itoa(k)
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(40*time.Millisecond))
			opts := randomTerms()
			acquire := l.Acquire
			if rand.N(4) == 0 {
				acquire = l.TryAcquire
			}
			lease, err := acquire(ctx, key, opts...)
			if known("acquire", err); err != nil {
				if lease != nil {
					t.Error("a lease with an error")
				}
				cancel()
				if errors.Is(err, lock.ErrClosed) {
					return
				}
				continue
			}
			grants.Add(1)
			mu.Lock()
			// A live writer has the highest token of its key. A live reader's token is above that of every earlier writer.
			last := &tokens[k]
			below := last.any
			if lease.Shared() {
				below = last.writer
			}
			if lease.Token() <= below && lease.Err() == nil {
				t.Errorf("token %d after %d (shared: %v)", lease.Token(), below, lease.Shared())
			}
			if last.any = max(last.any, lease.Token()); !lease.Shared() {
				last.writer = max(last.writer, lease.Token())
			}
			mu.Unlock()
			useUp(l, lease, key, known)
			if lease.Err() == nil || lease.Context(t.Context()).Err() == nil {
				t.Error("a released lease lives")
			}
			cancel()
		}
	}
	survivor := locker(t, store.Client())
	for range workers / 3 {
		wg.Go(func() { worker(survivor) })
	}
	wg.Go(func() { // opens and closes Lockers
		for goesOn() {
			// A lease that is held at Close is not released, so all TTLs are short.
			l, err := lock.New(store.Client(), lock.WithHandoff(rand.N(256)), lock.WithTTL(70*time.Millisecond))
			if err != nil {
				t.Error(err)
				return
			}
			for range workers / 3 {
				wg.Go(func() { worker(l) })
			}
			time.Sleep(rand.N(60 * time.Millisecond)) // sleeps: how long a Locker lives
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	for k := range keys {
		release(t, acquire(t, survivor, strconv.Itoa(k), lock.WithWait(5*time.Second)))
	}
	if gates, renewals := survivor.Kept(); gates != 0 || renewals != 0 {
		t.Errorf("%d gates and %d renewals are left", gates, renewals)
	}
	if n := grants.Load(); n < least {
		t.Errorf("only %d grants", n)
	}
}

func randomTerms() (opts []lock.AcquireOption) {
	opts = append(opts, lock.WithTTL(10*time.Millisecond+rand.N(60*time.Millisecond)))
	for _, o := range []lock.AcquireOption{
		lock.WithoutRenewal(), lock.WithMaxHold(20 * time.Millisecond), lock.WithMinHold(5 * time.Millisecond),
		lock.WithWait(rand.N(30 * time.Millisecond)), lock.Reentrant(), lock.Shared(),
	} {
		if rand.N(3) == 0 {
			opts = append(opts, o)
		}
	}
	return opts
}

// useUp calls random methods of a lease concurrently, and releases it.
func useUp(l *lock.Locker, lease *lock.Lease, key string, known func(string, error)) {
	var wg sync.WaitGroup
	for range 1 + rand.N(4) {
		switch rand.N(6) {
		case 0:
			wg.Go(func() {
				known("renew", lease.Renew(context.Background(), 10*time.Millisecond+rand.N(50*time.Millisecond)))
			})
		case 1:
			wg.Go(func() {
				opts := []lock.AcquireOption{lock.Reentrant(), lock.WithWait(time.Millisecond)}
				if lease.Shared() {
					opts = append(opts, lock.Shared())
				}
				again, err := l.Acquire(context.WithoutCancel(lease.Context(context.Background())), key, opts...)
				if known("re-entry", err); err == nil {
					known("release of a re-entry", again.Release(context.Background()))
				}
			})
		case 2:
			wg.Go(func() {
				other, err := l.TryAcquire(context.Background(), key)
				if known("try", err); err == nil { // the lease had ended
					known("release of a try", other.Release(context.Background()))
				}
			})
		case 3:
			wg.Go(func() { <-lease.Context(context.Background()).Done() })
		case 4:
			wg.Go(func() { _, _, _ = lease.Deadline(), lease.Err(), lease.Token() })
		case 5:
			wg.Go(func() { known("early release", lease.Release(context.Background())) })
		}
	}
	time.Sleep(rand.N(15 * time.Millisecond)) // sleeps: the work under the lock
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	known("release", lease.Release(ended))
	known("second release", lease.Release(ended))
	wg.Wait()
}
