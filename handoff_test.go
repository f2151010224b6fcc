package lock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

// queue starts n goroutines that queue for k, one after the other. The channel receives their leases in the order of
// the grants.
func queue(t *testing.T, l *lock.Locker, n int, opts ...lock.AcquireOption) <-chan *lock.Lease {
	t.Helper()
	got := make(chan *lock.Lease, n)
	for range n {
		go func() {
			lease, err := l.Acquire(t.Context(), "k", opts...)
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		synctest.Wait()
	}
	return got
}

func TestHandoffNeedsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f)
		first := acquire(t, l, "k")
		got := queue(t, l, 10)
		last, owner := first, first.Owner()
		for range 10 {
			release(t, last)
			next := <-got
			if next.Token() != last.Token()+1 {
				t.Errorf("token %d after %d", next.Token(), last.Token())
			}
			if next.Owner() != owner {
				t.Error("the store was asked")
			}
			wantErr(t, last.Err(), lock.ErrReleased)
			wantErr(t, last.Renew(t.Context(), time.Hour), lock.ErrReleased) // must not extend the next holder's lease
			release(t, last)                                                 // and must not release it
			if next.Err() != nil {
				t.Error(next.Err())
			}
			last = next
		}
		release(t, last)
		acquires, renewals, releases := f.counts()
		if acquires != 1 || renewals != 0 || releases != 1 {
			t.Errorf("%d acquires, %d renewals, %d releases for 11 holders; want 1, 0, 1", acquires, renewals, releases)
		}
		free(t, l, "k")
	})
}

func TestHandoffIsBounded(t *testing.T) {
	for _, c := range []struct {
		name  string
		opt   lock.Option
		hold  time.Duration
		share int // how many holders in a row one process has while another process waits
	}{
		{"in count", lock.WithHandoff(3), 0, 4},
		{"in time", lock.WithHandoff(255), 300 * time.Millisecond, 4},
		{"off", lock.WithHandoff(0), 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, a, b *lock.Locker) {
				first := acquire(t, a, "k")
				mine, theirs := queue(t, a, 10), queue(t, b, 1)
				last := first
				for n := 1; ; n++ {
					time.Sleep(c.hold)
					release(t, last)
					select {
					case last = <-mine:
						continue
					case last = <-theirs:
					}
					if n != c.share {
						t.Errorf("%d in a row before the other process, want %d", n, c.share)
					}
					break
				}
				for range 10 - (c.share - 1) {
					release(t, last)
					next := <-mine
					if next.Token() <= last.Token() {
						t.Errorf("token %d after %d", next.Token(), last.Token())
					}
					last = next
				}
				release(t, last)
			}, c.opt)
		})
	}
}

// A lease is renewed before it is handed on if less than half of its TTL remains, or if the next holder's terms differ.
func TestHandoffRenewsFirst(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name     string
		first    []lock.AcquireOption
		hold     time.Duration
		next     []lock.AcquireOption
		renewals int
		left     time.Duration // the shortest time to the next holder's deadline
	}{
		{"fresh", nil, 0, nil, 0, 900 * time.Millisecond},
		{"old", []lock.AcquireOption{lock.WithoutRenewal()}, 600 * time.Millisecond, nil, 1, 900 * time.Millisecond},
		{"longer", nil, 0, []lock.AcquireOption{lock.WithTTL(time.Minute)}, 1, 50 * second},
		{"shorter", []lock.AcquireOption{lock.WithTTL(time.Minute)}, 0, []lock.AcquireOption{lock.WithTTL(second)}, 1,
			900 * time.Millisecond},
		{"manual", nil, 100 * time.Millisecond, []lock.AcquireOption{lock.WithoutRenewal()}, 1, 980 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(memory.New())
				l := locker(t, f, lock.WithTTL(second))
				first := acquire(t, l, "k", c.first...)
				got := queue(t, l, 1, c.next...)
				time.Sleep(c.hold)
				release(t, first)
				next := <-got
				if _, n, _ := f.counts(); n != c.renewals {
					t.Errorf("%d renewals, want %d", n, c.renewals)
				}
				left := time.Until(next.Deadline())
				if left < c.left || c.left < second && left > second {
					t.Errorf("%v left", left)
				}
				release(t, next)
			})
		})
	}
}

// A lease that has been lost, or cannot be renewed, is not handed on: the next waiter requests a lease from the store.
func TestHandoffOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(time.Second))
		first := acquire(t, l, "k", lock.WithoutRenewal())
		got := queue(t, l, 1)
		time.Sleep(700 * time.Millisecond)
		f.set(func() { f.renew = func(context.Context) error { return errors.New("reset") } })
		release(t, first)
		next := <-got
		if next.Owner() == first.Owner() || next.Token() <= first.Token() {
			t.Error("an unrenewed lease was handed on")
		}
		got = queue(t, l, 1, lock.WithoutRenewal())
		<-next.Lost()
		wantErr(t, next.Release(t.Context()), lock.ErrLost)
		last := <-got
		if last.Owner() == next.Owner() || last.Token() <= next.Token() {
			t.Error("a lost lease was handed on")
		}
		release(t, last)
	})
}

// A lease that somebody has removed is not handed on, even if the store does not report the removal.
func TestHandoffOfARemovedLease(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		first := acquire(t, a, "k")
		got := queue(t, a, 3)
		time.Sleep(50 * time.Millisecond) // sleeps: the work under the lock
		if err := b.Ops().Break(t.Context(), "k", first.Owner()); err != nil {
			t.Fatal(err)
		}
		other := acquire(t, b, "k")
		wantErr(t, first.Release(t.Context()), lock.ErrLost)
		synctest.Wait()
		select {
		case l := <-got:
			t.Errorf("a holder with token %d began beside that of token %d", l.Token(), other.Token())
		default:
		}
		release(t, other)
		for range cap(got) {
			release(t, <-got)
		}
	})
}

// A Renew whose context has ended makes no request, so the lease can still be handed on.
func TestHandoffAfterRenewWithEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f)
		first := acquire(t, l, "k")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantErr(t, first.Renew(ctx, time.Minute), context.Canceled)
		got := queue(t, l, 1)
		release(t, first)
		next := <-got
		if next.Owner() != first.Owner() {
			t.Error("the lease was not handed on")
		}
		if _, renewals, _ := f.counts(); renewals != 0 {
			t.Errorf("%d requests to renew, want none", renewals)
		}
		release(t, next)
	})
}

// If the renewal before a hand-off is slow, the lease is not handed on later than a second after its grant.
func TestHandoffRenewalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f)
		first := acquire(t, l, "k")
		got := queue(t, l, 1, lock.WithoutRenewal()) // so that the hand-off renews
		time.Sleep(600 * time.Millisecond)
		f.set(func() {
			f.renew = func(ctx context.Context) error { return kit.Sleep(ctx, 700*time.Millisecond) }
		})
		release(t, first)
		next := <-got
		if next.Owner() == first.Owner() {
			t.Error("handed on more than a second after the grant")
		}
		release(t, next)
	})
}

// If the store panics in a release, in its renewal for a hand-off or for a minimum hold, the next waiter still gets its
// turn, and Shutdown does not wait for the failed release.
func TestPanicInReleaseLeavesTheGate(t *testing.T) {
	for name, opts := range map[string][]lock.AcquireOption{
		"hand-off":     nil,
		"minimum hold": {lock.WithMinHold(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(memory.New())
				l := locker(t, f)
				lease := acquire(t, l, "k", opts...)
				got := queue(t, l, 1, lock.WithoutRenewal(), lock.WithWait(time.Hour)) // WithoutRenewal: a hand-off renews
				f.set(func() { f.renew = func(context.Context) error { panic("boom") } })
				func() {
					defer func() {
						if got := recover(); got != "boom" {
							t.Errorf("the caller gets the panic %v", got)
						}
					}()
					_ = lease.Release(t.Context())
				}()
				f.set(func() { f.renew = nil })
				release(t, lease) // repeats the request whose outcome is unknown
				if next := <-got; next != nil {
					release(t, next)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := l.Shutdown(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A cancelled waiter is skipped, in the queue and at the moment of its turn.
func TestCancelledWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		first := acquire(t, a, "k")
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 5)
		for range 5 {
			go func() {
				_, err := a.Acquire(ctx, "k")
				errs <- err
			}()
		}
		synctest.Wait()
		got := queue(t, a, 1)
		cancel()
		for range 5 {
			wantErr(t, <-errs, context.Canceled)
		}
		release(t, first)
		release(t, <-got)
		free(t, b, "k")

		for range 300 { // the cancellation races with the turn
			first := acquire(t, a, "k")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if lease, err := a.Acquire(ctx, "k"); err == nil {
					release(t, lease)
				}
			}()
			synctest.Wait()
			go cancel()
			release(t, first)
			<-done
			synctest.Wait()
			free(t, b, "k")
		}
	})
}

// While another process holds the key and a goroutine waits for it, TryAcquire returns ErrHeld. It does not disturb the
// waiter.
func TestTryDoesNotBarge(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		first := acquire(t, b, "k")
		got := queue(t, a, 1)
		busy(t, a, "k")
		release(t, first)
		release(t, <-got)
	})
}

// Many goroutines of two Lockers contend for a key, in real time. One holds it at a time, and tokens increase.
func TestStress(t *testing.T) {
	store := memory.NewStore()
	const workers, rounds = 8, 100
	var (
		inside  atomic.Int32
		token   atomic.Uint64
		wg      sync.WaitGroup
		lockers = []*lock.Locker{locker(t, store.Client(), lock.WithHandoff(2)), locker(t, store.Client())}
	)
	for i := range workers {
		wg.Go(func() {
			l := lockers[i%len(lockers)]
			for n := range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				if n%10 == 9 {
					go cancel() // some of these cancel too late
				}
				lease, err := l.Acquire(ctx, "k", lock.WithTTL(time.Duration(1+n%3)*time.Minute))
				if err != nil {
					wantErr(t, err, context.Canceled)
					cancel()
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two inside")
				}
				if last := token.Swap(lease.Token()); last >= lease.Token() {
					t.Errorf("token %d after %d", lease.Token(), last)
				}
				inside.Add(-1)
				release(t, lease)
				cancel()
			}
		})
	}
	wg.Wait()
	// A lease that was granted to a waiter at the moment of its cancellation may still be under release.
	release(t, acquire(t, lockers[0], "k", lock.WithWait(5*time.Second)))
}
