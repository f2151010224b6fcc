package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// arrivalDelay is how long a waiter needs to reach the store's queue.
const arrivalDelay = 5 * time.Millisecond

// parked is how long after the release of a key a waiter may still be granted the key. After that, nobody will wake it.
const parked = time.Minute

var errParked = errors.New("a waiter is not granted a free key, long after it was released")

// granted waits for key. others is how long earlier holders may hold the key in total.
func granted(ctx context.Context, c Client, key string, others time.Duration) (Lease, error) {
	ctx, stop := context.WithTimeoutCause(ctx, parked+others, errParked)
	defer stop()
	l, err := c.Acquire(ctx, key)
	if err != nil && errors.Is(context.Cause(ctx), errParked) {
		err = errParked
	}
	return l, err
}

// handOff passes a key between two clients, back and forth.
func handOff(ctx context.Context, t *trial) error {
	clients, err := t.openSeveral(ctx, 2)
	if err != nil {
		return err
	}
	key := newKey()
	held, err := clients[0].Acquire(ctx, key)
	if err != nil {
		return err
	}
	type turn struct {
		lease Lease
		at    time.Time
		err   error
	}
	var times []time.Duration
	for i, end := 1, time.Now().Add(t.Duration); time.Now().Before(end) || i < 3; i++ {
		next := make(chan turn, 1)
		go func() {
			l, err := granted(ctx, clients[i%2], key, 0)
			next <- turn{l, time.Now(), err}
		}()
		time.Sleep(arrivalDelay)
		if err := held.Release(ctx); err != nil {
			return err
		}
		released := time.Now()
		n := <-next
		if n.err != nil {
			return n.err
		}
		held = n.lease
		times = append(times, max(n.at.Sub(released), 0)) // the grant may arrive before the reply to the release
	}
	t.waited(times)
	if times[0] == 0 { // waited has sorted them
		t.note = "0: granted before Release returned"
	}
	return held.Release(ctx)
}

// try attempts to acquire a key that another client holds.
func try(ctx context.Context, t *trial) error {
	clients, err := t.openSeveral(ctx, 2)
	if err != nil {
		return err
	}
	key := newKey()
	held, err := clients[0].Acquire(ctx, key)
	if err != nil {
		return err
	}
	attempt := func() (time.Duration, error) {
		begun := time.Now()
		_, err := clients[1].Try(ctx, key)
		took := time.Since(begun)
		switch {
		case err == nil:
			return 0, errors.New("a held key was granted")
		case !errors.Is(err, ErrBusy):
			return 0, err
		}
		return took, nil
	}
	if _, err := attempt(); err != nil {
		return err
	}
	before, err := t.begin(ctx)
	if err != nil {
		return err
	}
	var times []time.Duration
	begun := time.Now()
	// at least one, even if the machine was paused
	for end := begun.Add(t.Duration); len(times) == 0 || time.Now().Before(end); {
		took, err := attempt()
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	t.sample.set(Rate, float64(len(times))/time.Since(begun).Seconds())
	after, err := t.end(ctx)
	if err != nil {
		return err
	}
	t.spent(before, after, len(times))
	t.waited(times)
	return held.Release(ctx)
}

// recovery kills a process that holds a key for which a client of this process waits.
func recovery(ctx context.Context, t *trial) error {
	const usual = time.Second
	ttl := max(usual, t.store.MinTTL)
	key := newKey()
	c, err := t.open(ctx, ttl)
	if err != nil {
		return err
	}
	holder, err := startHolder(ctx, t.store.Child, key, ttl)
	if err != nil {
		return err
	}
	defer holder.kill()
	type turn struct {
		lease Lease
		err   error
	}
	next := make(chan turn, 1)
	go func() {
		l, err := c.Acquire(ctx, key)
		next <- turn{l, err}
	}()
	time.Sleep(20 * arrivalDelay)
	holder.kill()
	killed := time.Now()
	n := <-next
	if n.err != nil {
		return n.err
	}
	t.waited([]time.Duration{time.Since(killed)})
	t.note = fmt.Sprintf("TTL %v", ttl)
	return n.lease.Release(ctx)
}
