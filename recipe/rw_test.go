package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/recipe"
)

func (w *world) rw(n int) *recipe.RW {
	w.Helper()
	return readersWriters(w, w.locker(), n)
}

func readersWriters(t testing.TB, l *lock.Locker, n int) *recipe.RW {
	t.Helper()
	rw, err := recipe.NewRW(l, "doc", n)
	if err != nil {
		t.Fatal(err)
	}
	return rw
}

// rwKeys returns the keys of an RW for n readers.
func rwKeys(n int) []string {
	keys := []string{"doc/queue"}
	for i := range n {
		keys = append(keys, fmt.Sprintf("doc/permit/%d", i))
	}
	return keys
}

func writer(t testing.TB, rw *recipe.RW, opts ...lock.AcquireOption) *recipe.RWLease {
	t.Helper()
	return rwLease(t, rw.Acquire, opts...)
}

func reader(t testing.TB, rw *recipe.RW, opts ...lock.AcquireOption) *recipe.RWLease {
	t.Helper()
	return rwLease(t, rw.AcquireShared, opts...)
}

type acquireRW func(context.Context, ...lock.AcquireOption) (*recipe.RWLease, error)

func read(rw *recipe.RW) acquireRW  { return rw.AcquireShared }
func write(rw *recipe.RW) acquireRW { return rw.Acquire }

func rwLease(t testing.TB, acquire acquireRW, opts ...lock.AcquireOption) *recipe.RWLease {
	t.Helper()
	lease, err := acquire(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// An rwLog checks that the holders at work may work together, and checks their tokens as a resource would.
type rwLog struct {
	limit int
	guard fence.Guard

	mu               sync.Mutex
	readers, writers int
	mostReaders      int
	reads, writes    int
}

func (l *rwLog) enter(t *testing.T, lease *recipe.RWLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	check := l.guard.Do
	if lease.Shared() {
		check = l.guard.DoShared
		l.readers++
		l.reads++
	} else {
		l.writers++
		l.writes++
	}
	l.mostReaders = max(l.mostReaders, l.readers)
	if l.writers > 1 || l.writers > 0 && l.readers > 0 || l.readers > l.limit {
		t.Errorf("%d writers and %d readers are at work", l.writers, l.readers)
	}
	if err := check(lease.Token(), func() error { return nil }); err != nil {
		t.Errorf("a live holder is refused: %v", err)
	}
}

func (l *rwLog) leave(lease *recipe.RWLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lease.Shared() {
		l.readers--
	} else {
		l.writers--
	}
}

func TestRWExcludes(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				const workers, rounds = 12, 30
				log := &rwLog{limit: n}
				var wg sync.WaitGroup
				for i := range workers {
					l := w.locker()
					rws := []*recipe.RW{readersWriters(t, l, n), readersWriters(t, l, n)}
					for _, rw := range rws { // two workers of one process
						wg.Go(func() {
							random := rand.New(rand.NewPCG(uint64(i), uint64(n)))
							for range rounds {
								acquire := []acquireRW{rw.Acquire, rw.AcquireShared, rw.AcquireShared, rw.TryAcquire, rw.TryAcquireShared}
								lease, err := acquire[random.IntN(len(acquire))](t.Context())
								if errors.Is(err, lock.ErrHeld) {
									continue
								}
								if err != nil {
									t.Error(err)
									return
								}
								log.enter(t, lease)
								time.Sleep(time.Duration(1+random.IntN(7)) * time.Millisecond) // sleeps: in fake time
								log.leave(lease)
								release(t, lease)
							}
						})
					}
				}
				wg.Wait()
				if log.mostReaders != n || log.reads == 0 || log.writes == 0 {
					t.Errorf("%d reads, %d at once at most, and %d writes", log.reads, log.mostReaders, log.writes)
				}
				w.free(rwKeys(n)...)
			})
		})
	}
}

// While readers keep arriving, a writer waits only for the readers ahead of it.
func TestRWWriterIsNotStarved(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n, hold = 4, time.Second
		ctx, stop := context.WithCancel(t.Context())
		var reads atomic.Int32
		var wg sync.WaitGroup
		for i := range 2 * n {
			rw := w.rw(n)
			wg.Go(func() {
				time.Sleep(time.Duration(i) * hold / 8) // sleeps: in fake time
				for ctx.Err() == nil {
					lease, err := rw.AcquireShared(ctx)
					if err != nil {
						wantErr(t, err, context.Canceled)
						return
					}
					reads.Add(1)
					time.Sleep(hold) // sleeps: in fake time
					release(t, lease)
				}
			})
		}
		time.Sleep(10 * hold) // sleeps: in fake time
		for range 5 {
			start, before := time.Now(), reads.Load()
			lease := writer(t, w.rw(n))
			// n readers hold permits, and at most n wait ahead of the writer.
			if waited := time.Since(start); waited > 3*hold+time.Millisecond {
				t.Errorf("a writer waited for %v, and %d readers entered", waited, reads.Load()-before)
			}
			release(t, lease)
		}
		stop()
		wg.Wait()
		w.free(rwKeys(n)...)
	})
}

// A cancelled writer leaves nothing behind, and the waiters behind it enter at once.
func TestRWWaitEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 3
		first := reader(t, w.rw(n))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for _, acquire := range []acquireRW{w.rw(n).Acquire, w.rw(n).AcquireShared} { // at the front, and behind it
			go func() {
				_, err := acquire(ctx)
				ended <- err
			}()
			waitBlocked()
		}
		behind := make(chan *recipe.RWLease, 1)
		go func() { behind <- reader(t, w.rw(n)) }()
		waitBlocked()
		_, err := w.rw(n).TryAcquireShared(t.Context())
		wantErr(t, err, lock.ErrHeld)
		start := time.Now()
		_, err = w.rw(n).Acquire(t.Context(), lock.WithWait(time.Minute)) // in the queue
		wantErr(t, err, lock.ErrHeld)
		if took := time.Since(start).Round(time.Second); took != time.Minute {
			t.Errorf("a wait of a minute took %v", took)
		}
		cancelled := time.Now()
		cancel()
		for range 2 {
			wantErr(t, <-ended, context.Canceled, lock.ErrHeld)
		}
		second := <-behind
		if took := time.Since(cancelled); took > 20*latency {
			t.Errorf("the reader behind a cancelled writer entered after %v", took)
		}
		start = time.Now()
		_, err = w.rw(n).Acquire(t.Context(), lock.WithWait(time.Minute)) // for the readers, however many there are
		wantErr(t, err, lock.ErrHeld)
		if took := time.Since(start).Round(time.Second); took != time.Minute {
			t.Errorf("a wait of a minute for readers took %v", took)
		}
		_, err = w.rw(n).TryAcquire(t.Context())
		wantErr(t, err, lock.ErrHeld)
		release(t, first)
		release(t, second)
		w.free(rwKeys(n)...)
	})
}

// A reader holds only its permit: the queue is free, and the releases of other readers do not affect it.
func TestRWReaderHoldsOnePermit(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 3
		w.took()
		first := reader(t, w.rw(n))
		w.free("doc/queue")
		second := reader(t, w.rw(n))
		release(t, first)
		wantErr(t, first.Err(), lock.ErrReleased)
		wantErr(t, context.Cause(first.Context(t.Context())), lock.ErrReleased)
		time.Sleep(3 * ttl) // sleeps: in fake time
		if err := second.Err(); err != nil || !second.Shared() {
			t.Errorf("%v, shared: %v", err, second.Shared())
		}
		release(t, second)
		release(t, second)
	})
}

// Under the context of a lease, every further acquisition of the RW is ErrDeadlock before any request. An upgrade would
// wait for itself, and so would a second read behind a writer that waits for the first.
func TestRWNested(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 3
		l := w.locker()
		rw := readersWriters(t, l, n)
		for name, outer := range map[string]acquireRW{"reader": rw.AcquireShared, "writer": rw.Acquire} {
			lease := rwLease(t, outer)
			ctx := lease.Context(t.Context())
			w.took()
			again := readersWriters(t, l, n)
			for i, inner := range []acquireRW{again.AcquireShared, again.Acquire, again.TryAcquireShared, again.TryAcquire} {
				if _, err := inner(ctx, lock.Reentrant()); !errors.Is(err, lock.ErrDeadlock) || errors.Is(err, lock.ErrHeld) {
					t.Errorf("call %d under a %s: %v", i, name, err)
				}
			}
			if _, requests := w.took(); requests != 0 {
				t.Errorf("%d requests under a %s", requests, name)
			}
			other, err := recipe.NewRW(l, "other", n)
			if err != nil {
				t.Fatal(err)
			}
			inner, err := other.Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			release(t, inner)
			release(t, lease)
		}
	})
}

// The numbers of requests agree with the documentation.
func TestRWRequests(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 4
		rw := w.rw(n)
		requests := func() int {
			_, requests := w.took()
			return requests
		}
		requests()
		lease := writer(t, rw)
		if got := requests(); got != n+1 {
			t.Errorf("%d requests of a writer", got)
		}
		release(t, lease)
		if got := requests(); got != n+1 {
			t.Errorf("%d requests to release a writer", got)
		}
		lease = reader(t, rw)
		if got := requests(); got != 3 {
			t.Errorf("%d requests of a reader", got)
		}
		release(t, lease)
		if got := requests(); got != 1 {
			t.Errorf("%d requests to release a reader", got)
		}
		lease = writer(t, rw)
		next := make(chan *recipe.RWLease)
		another := w.rw(n)
		go func() { next <- reader(t, another) }()
		waitBlocked()
		requests()
		release(t, lease)
		lease = <-next
		if got := requests(); got != n+1+2 {
			t.Errorf("%d requests to hand over from a writer to a reader", got)
		}
		release(t, lease)
		requests()
		for held := range n {
			reader(t, rw)
			if got := requests(); got < 3 || got > 3+held {
				t.Errorf("%d requests of a reader beside %d", got, held)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := rw.AcquireShared(ctx)
			ended <- err
		}()
		waitBlocked()
		if got := requests(); got > 3*n+2 {
			t.Errorf("%d requests of a reader that waits", got)
		}
		cancel()
		wantErr(t, <-ended, lock.ErrHeld, context.Canceled)
	})
}

func TestRWInvalid(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, n := range []int{0, -1} {
			_, err := recipe.NewRW(w.locker(), "doc", n)
			wantErr(t, err, lock.ErrInvalid)
		}
		_, err := recipe.NewRW(w.locker(), "", 1)
		wantErr(t, err, lock.ErrInvalid)
	})
}
