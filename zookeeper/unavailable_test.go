package zookeeper

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// isUnavailable fails the test unless err matches ErrUnavailable, and neither ErrHeld nor a context error.
func isUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled) ||
		errors.Is(err, backend.ErrHeld) {
		t.Errorf("%s: %v, want ErrUnavailable", what, err)
	}
}

// If one of the store's own time limits ends a call, the error is ErrUnavailable, and not a context error.
func TestOwnLimitsAreUnavailable(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	p := newProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	b.options.Timeout = 500 * time.Millisecond
	var held backend.Lease
	until(t, 4*soon, "a lease, also where the machine stands still for as long", func() (ok bool) {
		var err error
		held, err = b.Acquire(t.Context(), req("k", time.Minute))
		return err == nil
	})
	p.set(func(p *proxy) { p.silent = true })
	ctx := context.Background()
	_, err := b.Acquire(ctx, req("a", time.Minute))
	isUnavailable(t, "try", err)
	_, err = b.Acquire(ctx, waiting("k", time.Minute))
	isUnavailable(t, "acquire", err)
	_, err = b.Inspect(ctx, "k")
	isUnavailable(t, "inspect", err)
	isUnavailable(t, "renew", held.Renew(ctx, time.Minute))
	isUnavailable(t, "renewal of a batch", b.RenewBatch(ctx, []backend.Renewal{{Lease: held, TTL: time.Minute}})[0])
	isUnavailable(t, "renewal in another session", held.Renew(ctx, 2*time.Second))
	isUnavailable(t, "release", held.Release(ctx))
}

// If a dial times out, opening returns ErrUnavailable, and not a context error.
func TestDialLimitIsUnavailable(t *testing.T) {
	t.Parallel()
	_, err := New(t.Context(), []string{"h:1"},
		&Options{Dial: func(network, address string, _ time.Duration) (net.Conn, error) {
			return net.DialTimeout(network, "127.0.0.1:1", 1) // a nanosecond
		}})
	isUnavailable(t, "open", err)
}

// If a waiter's context ends while the key is held, the error matches ErrHeld and the context's error.
func TestWaiterReportsBusy(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b := opened(t, s.url())
	l := acquire(t, b, req("k", time.Minute))
	second := storetest.QueueUp(t, b, waiting("k", time.Minute), 1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := b.Acquire(ctx, waiting("k", time.Minute)); !errors.Is(err, backend.ErrHeld) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want ErrHeld and the context's error", err)
	}
	var held *backend.HeldError
	ctx, cancel = context.WithCancel(t.Context())
	third := storetest.Start(ctx, b, waiting("k", time.Minute))
	storetest.Queued(t, b, "k", 2)
	cancel()
	o := <-third
	if h, err := b.Inspect(t.Context(), "k"); !errors.As(o.Err, &held) || !errors.Is(o.Err, context.Canceled) ||
		err != nil ||
		held.Holder.Owner != h.Owner {
		t.Errorf("%v (%+v, %v), want ErrHeld with the holder, and the context's error", o.Err, h, err)
	}
	release(t, l)
	release(t, storetest.Granted(t, second, soon).Lease)
}
