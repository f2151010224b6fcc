package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// held holds and renews many leases for a while.
func held(ctx context.Context, t *trial) error {
	const usual = 3 * time.Second
	ttl := max(usual, t.store.MinTTL)
	if t.TTL > 0 {
		ttl = t.ttl()
	}
	c, err := t.open(ctx, ttl)
	if err != nil {
		return err
	}
	first, err := c.Acquire(ctx, newKey())
	if err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	leases := []Lease{first}
	var mu sync.Mutex
	filling, cancel := context.WithTimeoutCause(ctx, fillTime,
		fmt.Errorf("not all leases were granted within %v", fillTime))
	defer cancel()
	err = few(t.number(t.Held, defaultHeld)-1, func(int) error {
		l, err := c.Acquire(filling, newKey())
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			leases = append(leases, l)
		}
		return err
	})
	if err != nil {
		return errors.Join(context.Cause(filling), err)
	}
	const renewals = 3 // per TTL, at least
	if err := t.rest(ctx, max(t.Duration, ttl/renewals*5/4)); err != nil {
		return err
	}
	t.note = strings.TrimPrefix(fmt.Sprintf("%s, TTL %v", t.note, ttl), ", ")
	t.sample.set(Goroutines, float64(max(runtime.NumGoroutine()-before, 0)))
	return few(len(leases), func(i int) error { return leases[i].Release(ctx) })
}

// fillTime limits the time in which a store grants the leases of the scenario held.
const fillTime = 30 * time.Second

// rest measures the load of the client and the server without any calls.
func (t *trial) rest(ctx context.Context, d time.Duration) error {
	before, err := t.begin(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	elapsed := time.Since(begun).Seconds()
	after, err := t.end(ctx)
	if err != nil {
		return err
	}
	if before.cpu > 0 {
		t.sample.set(CPU, 100*(after.cpu-before.cpu).Seconds()/elapsed)
	}
	if t.store.Requests != nil {
		t.sample.set(Load, float64(after.requests-before.requests)/elapsed)
	}
	return nil
}

// waiters releases a key to n waiters in several clients, and measures how fast they are granted the key.
func waiters(n int) run {
	return func(ctx context.Context, t *trial) error {
		clients, err := t.openSeveral(ctx, min(t.Clients, n)+1)
		if err != nil {
			return err
		}
		key := newKey()
		holder, others := clients[0], clients[1:]
		l, err := holder.Acquire(ctx, key)
		if err != nil {
			return err
		}
		var (
			released time.Time
			mu       sync.Mutex
			times    []time.Duration
			ready    sync.WaitGroup
			done     = make(chan error, 1)
		)
		ready.Add(n)
		go func() {
			done <- together(n, func(i int) error {
				ready.Done()
				l, err := granted(ctx, others[i%len(others)], key, time.Duration(n)*time.Second)
				if err != nil {
					return err
				}
				mu.Lock()
				times = append(times, time.Since(released))
				mu.Unlock()
				return l.Release(ctx)
			})
		}()
		ready.Wait()
		time.Sleep(10*arrivalDelay + time.Duration(n)*100*time.Microsecond) // all waiters have arrived
		mu.Lock()
		released = time.Now()
		mu.Unlock()
		if err := errors.Join(l.Release(ctx), <-done); err != nil {
			return err
		}
		t.sample.set(Rate, float64(n)/time.Since(released).Seconds())
		t.waited(times)
		return nil
	}
}

// few runs f n times, on as many goroutines as a busy application has.
func few(n int, f func(i int) error) error {
	const workers = 64
	var next atomic.Int64
	return together(min(n, workers), func(int) error {
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			if err := f(int(i - 1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// together runs f n times in parallel.
func together(n int, f func(i int) error) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for i := range n {
		wg.Go(func() {
			if err := f(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	wg.Wait()
	return first
}
