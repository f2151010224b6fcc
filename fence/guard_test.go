package fence_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
)

func TestGuard(t *testing.T) {
	var g fence.Guard
	failed := errors.New("disk full")
	for _, c := range []struct {
		what       string
		token      uint64
		write      error
		want       error
		wantWrites bool
	}{
		{"first", 256, nil, nil, true},
		{"same holder again", 256, nil, nil, true},
		{"later holder, whose write fails", 512, failed, failed, true},
		{"the one before, although that write has failed", 511, nil, fence.ErrStale, false},
		{"no token", 0, nil, lock.ErrInvalid, false},
		{"too high for a signed integer", math.MaxInt64 + 1, nil, lock.ErrInvalid, false},
		{"the highest of all", math.MaxInt64, nil, nil, true},
	} {
		wrote := false
		err := g.Do(c.token, func() error { wrote = true; return c.write })
		if !errors.Is(err, c.want) || wrote != c.wantWrites {
			t.Errorf("%s: error %v, want %v; wrote: %v", c.what, err, c.want, wrote)
		}
	}
	err := g.Do(7, func() error { return nil })
	if stale := (*fence.StaleError)(nil); !errors.As(err, &stale) ||
		*stale != (fence.StaleError{Token: 7, Seen: math.MaxInt64}) {
		t.Errorf("error %#v does not say which tokens", err)
	}
}

// In whatever order many holders write, the tokens of the writes that take effect never fall.
func TestGuardOrder(t *testing.T) {
	var g fence.Guard
	var written []uint64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				token := 1 + rand.Uint64N(1000)
				err := g.Do(token, func() error { written = append(written, token); return nil })
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	rises(t, written)
}

// rises fails the test if a token follows a higher one.
func rises(t *testing.T, tokens []uint64) {
	t.Helper()
	for i := range tokens[1:] {
		if tokens[i] > tokens[i+1] {
			t.Fatalf("a write with token %d came after one with %d", tokens[i+1], tokens[i])
		}
	}
}
