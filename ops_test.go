package lock_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

func TestListTellsHoldersBelowThePrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		mine, other := locker(t, s.Client(), lock.WithPrefix("mine/")), locker(t, s.Client())
		b, a := acquire(t, mine, "b"), acquire(t, mine, "a")
		foreign := acquire(t, other, "foreign")
		held, err := mine.Ops().List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, h := range held {
			keys = append(keys, h.Key)
		}
		if !slices.Equal(keys, []string{"a", "b"}) || held[0].Owner != a.Owner() || held[0].Token != a.Token() ||
			held[1].Owner != b.Owner() {
			t.Errorf("%+v", held)
		}
		if held, err := other.Ops().List(t.Context(), "mine/b"); err != nil || len(held) != 1 || held[0].Key != "mine/b" {
			t.Errorf("%+v, error %v", held, err)
		}
		release(t, a)
		release(t, b)
		release(t, foreign)
		if held, err := other.Ops().List(t.Context(), ""); err != nil || len(held) != 0 {
			t.Errorf("%+v, error %v", held, err)
		}
	})
}

func TestBrokenLeaseIsLostAtItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		holder, operator := locker(t, s.Client(), lock.WithTTL(ttl)), locker(t, s.Client())
		lease := acquire(t, holder, "k")
		wantErr(t, operator.Ops().Break(t.Context(), "k", "another"), lock.ErrLost)
		wantErr(t, operator.Ops().Break(t.Context(), "k", ""), lock.ErrInvalid)
		wantErr(t, operator.Ops().Break(t.Context(), "", lease.Owner()), lock.ErrInvalid)
		if err := operator.Ops().Break(t.Context(), "k", lease.Owner()); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, operator, "k")
		time.Sleep(ttl / 2)
		if !lost(lease) {
			t.Error("the holder has not heard of it at its renewal")
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		wantErr(t, operator.Ops().Break(t.Context(), "k", lease.Owner()), lock.ErrLost)
		release(t, next)
	})
}

func TestStoreThatCannotListOrBreakSaysSo(t *testing.T) {
	l := locker(t, struct{ backend.Backend }{memory.New()})
	_, err := l.Ops().List(t.Context(), "")
	wantErr(t, err, lock.ErrUnsupported)
	wantErr(t, l.Ops().Break(t.Context(), "k", "somebody"), lock.ErrUnsupported)
}

// manyKeys lists a thousand keys, and counts how many of them are inspected.
type manyKeys struct {
	*memory.Backend
	asked   atomic.Int32
	inspect func(ctx context.Context) error
}

func (*manyKeys) List(context.Context, string) ([]string, error) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	return keys, nil
}

func (m *manyKeys) Inspect(ctx context.Context, _ string) (backend.Holder, error) {
	m.asked.Add(1)
	return backend.Holder{}, m.inspect(ctx)
}

// After the first error, List does not inspect the remaining keys. It returns that error once.
func TestListStopsAtTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outage := errors.New("outage")
		store := &manyKeys{Backend: memory.New(), inspect: func(context.Context) error { return outage }}
		_, err := locker(t, store).Ops().List(t.Context(), "")
		if !errors.Is(err, outage) || strings.Count(err.Error(), "outage") != 1 {
			t.Errorf("%v, want the error once", err)
		}
		if n := store.asked.Load(); n > 32 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestListStopsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &manyKeys{Backend: memory.New(), inspect: hang}
		l := locker(t, store)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Ops().List(ctx, "")
		wantErr(t, err, context.DeadlineExceeded)
		if n := store.asked.Load(); n > 32 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestExamine(t *testing.T) {
	l := locker(t, memory.NewStore().Client())
	list, err := l.Ops().Examine(t.Context())
	if err != nil || len(list) != 1 || list[0].Code != "not-examined" {
		t.Errorf("%+v, error %v", list, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = l.Ops().Examine(t.Context())
	wantErr(t, err, lock.ErrClosed)
}

// Ping and Examine work with the longest prefix.
func TestProbesUnderALongPrefix(t *testing.T) {
	l := locker(t, memory.NewStore().Client(), lock.WithPrefix(strings.Repeat("p", backend.MaxKeyLen-1)))
	if err := l.Ops().Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := l.Ops().Examine(t.Context()); err != nil {
		t.Error(err)
	}
}
