package postgres

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Cancelling its context ends a request at once, even a request that has just begun, and long before its timeout.
func TestContextEndsYoungRequest(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	p := newProxy(t, s.Addr)
	b := opened(t, s.via(p.Addr)+"&timeout=1m")
	for _, wait := range []bool{false, true} {
		release(t, acquire(t, b, req("k", time.Minute)))
		rest(t, b)
		p.set(func(p *proxy) { p.mute = true })
		ctx, cancel := context.WithCancel(context.Background())
		r := req("k", time.Minute)
		r.Wait = wait
		begun := time.Now()
		time.AfterFunc(500*time.Microsecond, cancel)
		if _, err := b.Acquire(ctx, r); !errors.Is(err, context.Canceled) {
			t.Errorf("wait %v: %v", wait, err)
		}
		if took := time.Since(begun); took > soon {
			t.Errorf("wait %v: took %v", wait, took)
		}
		p.set(func(p *proxy) { p.mute = false })
		until(t, soon, "no lock is left", func() bool { return locks(t, c) == 0 })
	}
}

// The end of a request's context does not affect the next request on the same session.
func TestContextEndsOneRequest(t *testing.T) {
	t.Parallel()
	b := opened(t, shared(t).PostgresURL())
	blocker, key := acquire(t, b, req("k", time.Minute)), "k"
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		done := startAcquire(ctx, b, waiting(key, time.Minute))
		queued(t, b, key, 1)
		time.AfterFunc(0, cancel)
		release(t, blocker)
		o := <-done
		if o.Err != nil && !errors.Is(o.Err, context.Canceled) {
			t.Fatal(o.Err)
		}
		if o.Err == nil {
			<-ctx.Done()
			if err := o.Lease.Renew(context.Background(), time.Minute); err != nil {
				t.Fatal("a renewal after the end of the context of the grant: ", err)
			}
			release(t, o.Lease)
		}
		blocker = acquire(t, b, waiting(key, time.Minute))
	}
}

// If the connection of a queued waiter breaks, the waiter waits on. Cancelling its context still ends its Acquire.
func TestBrokenRequestLeavesContext(t *testing.T) {
	t.Parallel()
	s := shared(t)
	a, b := opened(t, s.PostgresURL()), opened(t, s.PostgresURL())
	l := acquire(t, a, req("k", time.Minute))
	defer release(t, l)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := startAcquire(ctx, b, waiting("k", time.Minute))
	queued(t, a, "k", 1) // now its context is watched
	var waits *session
	b.pool.mu.Lock()
	for s := range b.pool.all {
		if s.held != nil && s.held.queued {
			waits = s
		}
	}
	b.pool.mu.Unlock()
	_ = waits.wire().Close()
	until(t, soon, "the connection is given up", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return waits.dead
	})
	cancel()
	if o := <-done; !errors.Is(o.Err, context.Canceled) {
		t.Errorf("%v, want the context's end", o.Err)
	}
}
