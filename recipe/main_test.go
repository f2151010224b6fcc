package recipe_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
)

// child runs the recipes in a process that a test has started. It is nil on systems without such tests.
var child func()

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every outage, and these tests cause outages on purpose
	if child != nil {
		child()
	}
	storetest.VerifyTestMain(m, storetest.GoRedisDials())
}

const ttl = 10 * time.Second

// A world is a store in a synctest bubble, with a Locker for each simulated process.
type world struct {
	*testing.T
	store *memory.Store

	mu     sync.Mutex
	events []string // "acquire key" and "release key", in the order at the store; without refusals
	fault  func(key string) error
	asked  int           // requests
	slow   time.Duration // time until the reply to a grant arrives
	deaf   bool          // requests reach the store even if their context has ended
}

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &world{T: t, store: memory.NewStore(), slow: latency}) })
}

func (w *world) locker() *lock.Locker {
	w.Helper()
	l, err := lock.New(&client{w.store.Client(), w}, lock.WithTTL(ttl))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := l.Close(); err != nil {
			w.Error(err)
		}
	})
	return l
}

// latency is the time that a request takes.
const latency = time.Microsecond

// count counts a request, and returns the error with which the request fails, or nil.
func (w *world) count(key string) error {
	time.Sleep(latency) // sleeps: in fake time
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.fault != nil {
		return w.fault(key)
	}
	return nil
}

func (w *world) note(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event)
}

// took returns the events at the store and the number of requests since the last call.
func (w *world) took() (events []string, requests int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, requests = w.events, w.asked
	w.events, w.asked = nil, 0
	return events, requests
}

// wantEvents fails the test unless exactly these events have happened since the last call of took.
func (w *world) wantEvents(want ...string) {
	w.Helper()
	if got, _ := w.took(); !slices.Equal(got, want) {
		w.Errorf("at the store: %q, want %q", got, want)
	}
}

// waitBlocked returns when all requests have ended or wait at the store.
func waitBlocked() {
	time.Sleep(1000 * latency) // sleeps: in fake time
	synctest.Wait()
}

// free fails the test unless every key can be acquired at once.
func (w *world) free(keys ...string) {
	w.Helper()
	l := w.locker()
	for _, key := range keys {
		lease, err := l.TryAcquire(w.Context(), key)
		if err != nil {
			w.Errorf("%s is not free: %v", key, err)
			continue
		}
		release(w, lease)
	}
}

// A client counts its requests, and fails them with the errors of world.fault.
type client struct {
	backend.Backend
	w *world
}

func (c *client) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := c.w.count(r.Key); err != nil {
		return nil, err
	}
	if c.w.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	l, err := c.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	c.w.note("acquire " + r.Key)
	time.Sleep(c.w.slow) // sleeps: in fake time
	return &counted{l.(*kit.Life), r.Key, c.w}, nil
}

func (c *client) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := c.w.count(key); err != nil {
		return backend.Holder{}, err
	}
	return c.Backend.Inspect(ctx, key)
}

func (c *client) Break(ctx context.Context, key, owner string) error {
	return c.Backend.(backend.Breaker).Break(ctx, key, owner)
}

type counted struct {
	*kit.Life
	key string
	w   *world
}

func (l *counted) Release(ctx context.Context) error {
	if err := l.w.count(l.key); err != nil {
		return err
	}
	l.w.note("release " + l.key)
	return l.Life.Release(ctx)
}

type releaser interface{ Release(context.Context) error }

func release(t testing.TB, r releaser) {
	t.Helper()
	if err := r.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

func wantErr(t testing.TB, got error, want ...error) {
	t.Helper()
	for _, want := range want {
		if !errors.Is(got, want) {
			t.Errorf("got error %v, want %v", got, want)
		}
	}
}

// breakKey ends the lease on key. If key is free, the test fails.
func breakKey(t testing.TB, l *lock.Locker, key string) {
	t.Helper()
	h, err := l.Ops().Inspect(t.Context(), key)
	if err == nil {
		err = l.Ops().Break(t.Context(), key, h.Owner)
	}
	if err != nil {
		t.Fatal(err)
	}
}
