package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/recipe"
)

func (w *world) semaphore(n int) *recipe.Semaphore {
	w.Helper()
	return semaphore(w, w.locker(), n)
}

func semaphore(t testing.TB, l *lock.Locker, n int) *recipe.Semaphore {
	t.Helper()
	s, err := recipe.NewSemaphore(l, "mail", n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func permit(t testing.TB, s *recipe.Semaphore, opts ...lock.AcquireOption) *lock.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// A key so long that the name of the permit after the last would exceed the limit of keys has a semaphore, too.
func TestSemaphoreOfTheLongestKey(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 10
		key := strings.Repeat("k", backend.MaxKeyLen-len("/permit/9"))
		s, err := recipe.NewSemaphore(w.locker(), key, n)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			defer release(t, permit(t, s))
		}
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("%v, want ErrHeld", err)
		}
	})
}

func TestSemaphoreLimits(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				const workers, rounds = 12, 20
				var (
					holders, most atomic.Int32
					wg            sync.WaitGroup
				)
				for i := range workers {
					s := w.semaphore(n)
					if i%2 > 0 {
						s = semaphore(t, w.locker(), n)
					}
					wg.Go(func() {
						for r := range rounds {
							lease, err := s.Acquire(t.Context())
							if err != nil {
								t.Error(err)
								return
							}
							now := holders.Add(1)
							if now > int32(n) {
								t.Errorf("%d hold a permit", now)
							}
							most.Store(max(most.Load(), now))
							time.Sleep(time.Duration(1+(i+r)%7) * time.Millisecond)
							holders.Add(-1)
							release(t, lease)
						}
					})
				}
				wg.Wait()
				if most.Load() != int32(n) {
					t.Errorf("at most %d held a permit", most.Load())
				}
				for i := range n {
					w.free(fmt.Sprintf("mail/permit/%d", i))
				}
				w.free("mail/queue")
			})
		})
	}
}

// Processes get permits in order of arrival.
func TestSemaphoreFIFO(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n, waiters = 3, 8
		var held [n]*lock.Lease
		for i := range held {
			held[i] = permit(t, w.semaphore(n))
		}
		granted := make(chan int, waiters)
		for i := range waiters {
			s := w.semaphore(n)
			go func() {
				lease, err := s.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				granted <- i
				time.Sleep(time.Second)
				release(t, lease)
			}()
			waitBlocked()
		}
		_, err := w.semaphore(n).TryAcquire(t.Context())
		wantErr(t, err, lock.ErrHeld)
		release(t, held[1])
		for i := range waiters {
			if got := <-granted; got != i {
				t.Errorf("grant %d went to waiter %d", i, got)
			}
		}
		release(t, held[0])
		release(t, held[2])
		time.Sleep(2 * time.Second)
	})
}

// A free permit is granted at once, without polling.
func TestSemaphoreIsPrompt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 4
		var held [n]*lock.Lease
		for i := range held {
			held[i] = permit(t, w.semaphore(n))
		}
		for _, freed := range []int{2, 0, 3, 1} {
			key := held[freed].Key()
			got := make(chan *lock.Lease, 1)
			go func() { got <- permit(t, w.semaphore(n)) }()
			time.Sleep(100 * ttl)
			waitBlocked()
			w.took()
			released := time.Now()
			release(t, held[freed])
			held[freed] = <-got
			if held[freed].Key() != key || time.Since(released) > 10*latency {
				t.Errorf("%s was granted after %v, want %s at once", held[freed].Key(), time.Since(released), key)
			}
			// The requests that wait at the store were counted when they began.
			if _, requests := w.took(); requests > 2 {
				t.Errorf("%d requests for a grant", requests)
			}
		}
		for _, lease := range held {
			release(t, lease)
		}
	})
}

// The permit of a dead holder is free after its TTL. A dead waiter at the front does not delay the others for longer
// than that.
func TestSemaphoreAfterDeath(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dead := w.locker()
		_ = permit(t, semaphore(t, dead, 2))
		alive := permit(t, w.semaphore(2))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = semaphore(t, dead, 2).Acquire(ctx) }()
		waitBlocked()
		if err := dead.Close(); err != nil { // the keys stay taken until their TTL, as after a crash
			t.Error(err)
		}
		died := time.Now()
		next := permit(t, w.semaphore(2))
		if took := time.Since(died); took > ttl+time.Second {
			t.Errorf("a permit came back %v after its holder died, with a TTL of %v", took, ttl)
		}
		release(t, next)
		release(t, alive)
	})
}

// A waiter that gets several permits at once keeps one.
func TestSemaphoreGivesBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 5
		var held [n]*lock.Lease
		for i := range held {
			held[i] = permit(t, w.semaphore(n))
		}
		got := make(chan *lock.Lease, 1)
		go func() { got <- permit(t, w.semaphore(n)) }()
		waitBlocked()
		w.slow = time.Millisecond // all are granted before the first reply arrives
		w.took()
		for _, lease := range held {
			go release(t, lease)
		}
		lease := <-got
		if events, _ := w.took(); len(events) != n+n+n-1+1 { // releases, grants, surplus released; the place in the queue
			t.Errorf("at the store: %q", events)
		}
		s := w.semaphore(n)
		for i := range n - 1 {
			l, err := s.TryAcquire(t.Context())
			if err != nil {
				t.Fatalf("only %d permits are free: %v", i, err)
			}
			defer release(t, l)
		}
		time.Sleep(2 * ttl)
		if lease.Err() != nil || lease.Context(t.Context()).Err() != nil {
			t.Errorf("%v, %v", lease.Err(), lease.Context(t.Context()).Err())
		}
		release(t, lease)
	})
}

// After a wait for a permit, the caller's context has no derived contexts left.
func TestSemaphoreFreesContexts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		held := permit(t, w.semaphore(1))
		ctx := &spyContext{Context: t.Context(), done: make(chan struct{})}
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, err := w.semaphore(1).Acquire(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		waitBlocked()
		release(t, held)
		release(t, <-got)
		waitBlocked()
		if n := ctx.children.Load(); n != 0 {
			t.Errorf("%d contexts are left", n)
		}
	})
}

// A spyContext counts the contexts that are derived from it and have not ended.
type spyContext struct {
	context.Context
	done     chan struct{}
	children atomic.Int32
}

func (c *spyContext) Done() <-chan struct{} { return c.done }

// AfterFunc is called by package context for each derived context.
func (c *spyContext) AfterFunc(func()) (stop func() bool) {
	c.children.Add(1)
	return sync.OnceValue(func() bool { c.children.Add(-1); return true })
}

func TestSemaphoreWaitEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		held := permit(t, w.semaphore(1))
		for name, waiters := range map[string]int{"at the front": 0, "in the queue": 1} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, waiters)
			for range waiters {
				s := w.semaphore(1)
				go func() {
					_, err := s.Acquire(ctx)
					ended <- err
				}()
				waitBlocked()
			}
			start := time.Now()
			_, err := w.semaphore(1).Acquire(t.Context(), lock.WithWait(time.Minute))
			wantErr(t, err, lock.ErrHeld)
			if took := time.Since(start); took.Round(time.Second) != time.Minute {
				t.Errorf("%s: a wait of a minute took %v", name, took)
			}
			_, err = w.semaphore(1).Acquire(t.Context(), lock.WithWait(0))
			wantErr(t, err, lock.ErrHeld)
			cancel()
			for range waiters {
				wantErr(t, <-ended, context.Canceled, lock.ErrHeld)
			}
		}
		release(t, held)
		w.free("mail/permit/0", "mail/queue")
	})
}

// A minimum hold applies to the permit, not to the place in the queue.
func TestSemaphoreMinHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := permit(t, w.semaphore(2), lock.WithMinHold(time.Hour))
		w.free("mail/queue")
		release(t, first)
		second := permit(t, w.semaphore(2), lock.WithMinHold(time.Hour))
		if second.Key() != "mail/permit/1" {
			t.Errorf("the second permit is %s", second.Key())
		}
		release(t, second)
		start := time.Now()
		release(t, permit(t, w.semaphore(2), lock.WithMaxHold(time.Second)))
		if took := time.Since(start); took < time.Hour-time.Second {
			t.Errorf("a permit after %v", took)
		}
	})
}

// The place in the queue is released even if no time passes between its grant and its release.
func TestSemaphoreLeavesTheQueueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := lock.New(memory.New())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		held := permit(t, semaphore(t, l, 2))
		place, err := l.TryAcquire(t.Context(), "mail/queue")
		if err != nil {
			t.Fatal(err)
		}
		release(t, place)
		release(t, held)
	})
}

// Under the context of a permit, Acquire returns another permit.
func TestSemaphoreNested(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.semaphore(2)
		first := permit(t, s)
		second, err := s.Acquire(first.Context(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if first.Key() == second.Key() {
			t.Errorf("both are %s", first.Key())
		}
		_, err = s.Acquire(second.Context(first.Context(t.Context())))
		wantErr(t, err, lock.ErrDeadlock)
		got := make(chan *lock.Lease, 1)
		go func() {
			third, err := s.Acquire(first.Context(t.Context())) // waits for the second
			if err != nil {
				t.Error(err)
			}
			got <- third
		}()
		waitBlocked()
		release(t, second)
		release(t, <-got)
		release(t, first)
	})
}

func TestSemaphoreLimitsDiffer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		high, low := w.semaphore(5), w.semaphore(3)
		var held []*lock.Lease
		for range 4 {
			held = append(held, permit(t, high))
		}
		_, err := low.Acquire(t.Context())
		wantErr(t, err, recipe.ErrLimit, lock.ErrHeld)
		_, err = low.TryAcquire(t.Context())
		wantErr(t, err, recipe.ErrLimit, lock.ErrHeld)
		held = append(held, permit(t, high))
		_, err = high.TryAcquire(t.Context())
		wantErr(t, err, lock.ErrHeld)
		if errors.Is(err, recipe.ErrLimit) {
			t.Errorf("%v, but nobody has a higher limit", err)
		}
		for _, lease := range held {
			release(t, lease)
		}
		release(t, permit(t, low))
		for _, n := range []int{0, -1} {
			_, err := recipe.NewSemaphore(w.locker(), "mail", n)
			wantErr(t, err, lock.ErrInvalid)
		}
		_, err = recipe.NewSemaphore(w.locker(), "", 1)
		wantErr(t, err, lock.ErrInvalid)
	})
}

// An error quotes the key, which may have any characters.
func TestSemaphoreErrorIsOneLine(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		high, err := recipe.NewSemaphore(w.locker(), "mail\n", 2)
		if err != nil {
			t.Fatal(err)
		}
		low, err := recipe.NewSemaphore(w.locker(), "mail\n", 1)
		if err != nil {
			t.Fatal(err)
		}
		one, two := permit(t, high), permit(t, high)
		_, err = low.TryAcquire(t.Context())
		if !errors.Is(err, recipe.ErrLimit) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want ErrLimit in one line", err)
		}
		release(t, one)
		release(t, two)
	})
}

// The numbers of requests agree with the documentation.
func TestSemaphoreRequests(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 4
		var held [n]*lock.Lease
		for k := range held {
			s := w.semaphore(n)
			w.took()
			held[k] = permit(t, s)
			if _, requests := w.took(); requests != 3+k {
				t.Errorf("%d requests with %d permits held", requests, k)
			}
		}
		s := w.semaphore(n)
		got := make(chan *lock.Lease, 1)
		go func() { got <- permit(t, s) }()
		waitBlocked()
		if _, requests := w.took(); requests > 3*n+2 { // this store gets one attempt before each wait
			t.Errorf("%d requests until it waits", requests)
		}
		release(t, held[0])
		held[0] = <-got
		for _, lease := range held {
			release(t, lease)
		}
	})
}
