package lock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

type unready struct {
	backend.Backend
	err error
}

func (u unready) NotReady() error { return u.err }

// A learning store is not ready until it has replied to a request.
type learning struct {
	backend.Backend
	replied atomic.Bool
}

func (s *learning) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	s.replied.Store(true)
	return s.Backend.Inspect(ctx, key)
}

func (s *learning) NotReady() error {
	if s.replied.Load() {
		return nil
	}
	return errors.New("no reply yet")
}

// Ping makes its request also while the store is not ready, because the reply may show that the store is ready again.
func TestPingOfStoreThatIsReadyAgain(t *testing.T) {
	l := locker(t, &learning{Backend: memory.New()})
	if err := l.Ops().Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// NotReady returns why the store cannot grant yet. An Acquire logs that reason once; a TryAcquire does not.
func TestNotReady(t *testing.T) {
	barred := errors.New("node 2 is barred until 12:00")
	for _, c := range []struct {
		store backend.Backend
		want  error
	}{{memory.New(), nil}, {unready{memory.New(), nil}, nil}, {unready{memory.New(), barred}, barred}} {
		var log bytes.Buffer
		l := locker(t, c.store, lock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err := l.Ops().NotReady(); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
		lease, err := l.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		release(t, lease)
		if log.Len() > 0 {
			t.Errorf("an attempt that does not wait is logged: %s", &log)
		}
		release(t, acquire(t, l, "k"))
		want := 0
		if c.want != nil {
			want = 1
		}
		if n := strings.Count(log.String(), "cannot grant yet"); n != want || strings.Count(log.String(), "node 2") != want {
			t.Errorf("%d lines, want %d: %s", n, want, &log)
		}
	}
}
