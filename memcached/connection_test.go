package memcached

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// A Backend opens at most as many connections as the URL allows, however many calls run at once, and reuses them.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	const most = 3
	b := opened(t, fmt.Sprintf("memcached://%s%s&max_idle_conns=%d", p.Addr, patient, most))
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for range 5 {
				l, err := b.Acquire(context.Background(), req(fmt.Sprint("k", i), time.Minute))
				if err == nil {
					err = l.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last > most {
		t.Errorf("%d connections were made, %d are allowed", p.last, most)
	}
}

// If the server hangs, a call that waits for a free connection does not take longer than a call that has one.
func TestHungServer(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	const timeout = 2 * time.Second
	b := opened(t, fmt.Sprintf("memcached://%s?max_idle_conns=1&timeout=%v", s.Addr, timeout))
	live := acquire(t, b, req("live", time.Minute))
	s.Freeze()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ctx := context.Background()
			if i%2 == 1 {
				short, cancel := context.WithTimeout(ctx, timeout/4)
				defer cancel()
				ctx = short
			}
			begun := time.Now()
			_, err := b.Acquire(ctx, req(fmt.Sprint("k", i), time.Minute))
			took := time.Since(begun)
			switch {
			case err == nil:
				t.Error("granted by a server that hangs")
			case ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("under a context that has ended: %v", err)
			case ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, backend.ErrUnavailable)):
				t.Errorf("under a live context: %v", err)
			}
			if took > 2*timeout+time.Second {
				t.Errorf("refused after %v", took)
			}
		})
	}
	wg.Wait()
	s.Thaw()
	until(t, soon, "the client works again", func() bool { return live.Renew(context.Background(), time.Minute) == nil })
	for i := range 8 {
		until(t, soon, "nothing stayed behind", func() bool {
			h, err := b.Inspect(context.Background(), fmt.Sprint("k", i))
			return err == nil && !h.Held()
		})
	}
}
