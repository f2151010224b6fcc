package memory_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// The waiters of several clients are granted the key in order of arrival, while every third waiter is cancelled.
func TestFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		clients := []*memory.Backend{client(t, s), client(t, s), client(t, s)}
		held := mustTry(t, clients[0], "k", time.Hour)
		var (
			order []int
			mu    sync.Mutex
			wg    sync.WaitGroup
			last  = held.Token()
		)
		for i := range 30 {
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(func() {
				defer cancel()
				l, err := clients[i%3].Acquire(ctx, request("k", time.Hour, true))
				if i%3 == 2 {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("cancelled waiter %d: %v", i, err)
					}
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if order = append(order, i); l.Token() <= last {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
				mu.Unlock()
				if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if i%3 == 2 {
				cancel()
				synctest.Wait()
			}
		}
		if h, _ := clients[1].Inspect(t.Context(), "k"); h.Waiters != 20 {
			t.Errorf("%d waiters, want 20", h.Waiters)
		}
		held.Release(t.Context())
		wg.Wait()
		for i := 1; i < len(order); i++ {
			if order[i] < order[i-1] {
				t.Fatalf("granted in the order %v", order)
			}
		}
		if len(order) != 20 || s.Len() != 0 {
			t.Errorf("%d granted, %d keys left; want 20 and 0", len(order), s.Len())
		}
	})
}

// If a waiter's context ends at the moment of the grant, the waiter holds the key or the key is free.
func TestCancelRacesGrant(t *testing.T) {
	s := memory.NewStore()
	b := client(t, s)
	for range 2000 {
		held := mustTry(t, b, "k", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan backend.Lease)
		go func() {
			l, _ := b.Acquire(ctx, request("k", time.Minute, true))
			got <- l
		}()
		for h := (backend.Holder{}); h.Waiters == 0; {
			runtime.Gosched()
			h, _ = b.Inspect(t.Context(), "k")
		}
		go cancel()
		held.Release(t.Context())
		if l := <-got; l != nil {
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.Len(); n != 0 {
			t.Fatal("the key is still held after its waiter had given up")
		}
		cancel()
	}
}

func TestCloseEndsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		a, b := client(t, s), client(t, s)
		held := mustTry(t, a, "k", time.Hour)
		errs := make(chan error)
		go func() {
			_, err := b.Acquire(t.Context(), request("k", time.Hour, true))
			errs <- err
		}()
		synctest.Wait()
		b.Close()
		if err := <-errs; !errors.Is(err, backend.ErrClosed) {
			t.Errorf("waiter of a closed client: %v", err)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if s.Len() != 0 {
			t.Error("the key went to a waiter of a closed client")
		}
		if _, err := b.Inspect(t.Context(), "k"); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("inspect after close: %v", err)
		}
		if _, err := try(b, "k", time.Hour); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("acquire after close: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

// A repeated request of the same owner returns the same grant. A refused attempt of another owner changes nothing.
func TestOwnerIsRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		a, b := client(t, s), client(t, s)
		r := request("k", time.Minute, false)
		l1, err1 := a.Acquire(t.Context(), r)
		l2, err2 := a.Acquire(t.Context(), r)
		if err1 != nil || err2 != nil || l1.Token() != l2.Token() {
			t.Fatalf("%v %v: want one grant", err1, err2)
		}
		time.Sleep(30 * time.Second)
		var held *backend.HeldError
		if _, err := try(b, "k", time.Hour); !errors.As(err, &held) || held.Holder.TTL != 30*time.Second ||
			held.Holder.Owner != r.Owner {
			t.Errorf("second owner: %v", err)
		}
		if _, err := try(a, "k", time.Hour); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("two owners of one client: %v", err)
		}
	})
}

// A released key is free, even after its former expiry, and no matter which keys are granted meanwhile.
func TestFreedKeyIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		a, b := client(t, s), client(t, s)
		for range 2 {
			for _, key := range []string{"k", "k", "other", "k"} {
				l := mustTry(t, a, key, time.Minute)
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute) // past its former expiry
				if h, err := b.Inspect(t.Context(), key); err != nil || h.Held() {
					t.Errorf("freed key %q: %v, %v", key, h, err)
				}
				if n := s.Len(); n != 0 {
					t.Errorf("%d keys are held after the release of %q", n, key)
				}
			}
			k, other := mustTry(t, a, "k", time.Minute), mustTry(t, b, "other", time.Minute)
			for _, key := range []string{"k", "other"} {
				if _, err := try(b, key, time.Minute); !errors.Is(err, backend.ErrHeld) {
					t.Errorf("held key %q: %v", key, err)
				}
			}
			if n := s.Len(); n != 2 {
				t.Errorf("%d keys are held, want 2", n)
			}
			k.Release(t.Context())
			other.Release(t.Context())
		}
	})
}

// A contextOfFreeKey ends when its key is held.
type contextOfFreeKey struct {
	context.Context
	b   *memory.Backend
	key string
}

func (c contextOfFreeKey) Err() error {
	if h, err := c.b.Inspect(context.Background(), c.key); err == nil && h.Held() {
		return context.Canceled
	}
	return nil
}

// If a context ends just after the store has granted a free key, the Acquire fails, and the key is free again.
func TestContextEndsAfterGrant(t *testing.T) {
	s := memory.NewStore()
	b, other := client(t, s), client(t, s)
	ctx := contextOfFreeKey{t.Context(), other, "k"}
	if l, err := b.Acquire(ctx, request("k", time.Hour, false)); err == nil {
		t.Fatalf("granted with token %d", l.Token())
	}
	mustTry(t, other, "k", time.Hour)
}
