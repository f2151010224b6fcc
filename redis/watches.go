package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/redis/internal/exchange"
)

// reservation is RESERVATION of prelude.lua: for how long a key is kept for a waiter that was told to come.
const reservation = 500 * time.Millisecond

// Watches are kept by those who have released a key to a waiter: at the end of the reservation they look whether it came, and hand
// the key on if not, as often as it takes. A deputy does so too, in case the releaser is gone; but it may be frozen as the waiter
// is, which the server cannot know, while who has just released runs. One that is closed leaves more deputies behind. The zero
// watches is ready.
type watches struct {
	n      atomic.Int32 // of timers, so that those who have none need no lock
	mu     sync.Mutex
	timers map[string]*watch // by key
}

// A watch is the timer of one reservation. Its callback knows it by this, as it may run before the timer is there to be named.
type watch struct{ *time.Timer }

// lastDeputies is how many waiters a Backend that is closed tells to look after a reservation.
const lastDeputies = 16

// begin watches a key that is reserved since the release of owner's lease.
func (w *watches) begin(b *Backend, key, owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timers == nil {
		w.timers = make(map[string]*watch)
	}
	if b.usage.IsClosing() {
		return
	}
	if t := w.timers[key]; t != nil {
		t.Stop()
	}
	t := new(watch)
	t.Timer = time.AfterFunc(untilLook(reservation), func() {
		if w.over(key, t) && !b.usage.IsClosing() && b.usage.Calls.Begin() {
			defer b.usage.Calls.End()
			b.passOn(key, owner)
		}
	})
	w.timers[key] = t
	w.n.Store(int32(len(w.timers)))
}

// of returns the watch of key, nil if there is none.
func (w *watches) of(key string) *watch {
	if w.n.Load() == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.timers[key]
}

// over ends a watch, and reports whether it was still its key's.
func (w *watches) over(key string, t *watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timers[key] != t {
		return false
	}
	t.Stop()
	delete(w.timers, key)
	w.n.Store(int32(len(w.timers)))
	return true
}

// close ends all, and returns their keys.
func (w *watches) close() (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, t := range w.timers {
		t.Stop()
		keys = append(keys, key)
	}
	clear(w.timers)
	w.n.Store(0)
	return keys
}

// passOn hands on a key that was reserved and that nobody has. Owner is one who has nothing any more.
func (b *Backend) passOn(key, owner string) {
	ctx := context.Background()
	if left, err := b.left(ctx, b.naming.lock(key)); err != nil || left <= 0 {
		_, _ = b.release(ctx, key, owner, 0)
	}
}

// leaveWatches tells those who wait for keys that are being watched to do so.
func (b *Backend) leaveWatches() {
	for _, key := range b.watches.close() {
		b.usage.Calls.Background(func() { b.tellDeputies(b.naming.names(key).queue) })
	}
}

func (b *Backend) tellDeputies(queue string) {
	ctx, end := context.Background(), time.Now().Add(exchange.CloseGrace)
	v, _ := b.deliver(ctx, end, exchange.Request{Args: []any{"zrange", queue, 0, lastDeputies - 1}})
	members, _ := v.([]any)
	for _, m := range members {
		if m, _ := m.(string); len(m) > inboxLen {
			what := fmt.Sprintf("%d:%s", reservation.Milliseconds(), m[inboxLen:])
			_, _ = b.deliver(ctx, end, exchange.Request{Args: []any{"publish", b.naming.channels() + m[:inboxLen], what}})
		}
	}
}
