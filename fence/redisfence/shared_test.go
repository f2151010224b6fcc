package redisfence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock"
	"github.com/anylock/lock/fence"
	"github.com/anylock/lock/fence/redisfence"
	"github.com/anylock/lock/internal/fencetest"
)

// A resource is a fencetest.Scheme that keeps its tokens in one key.
type resource struct {
	c   *redis.Client
	key string
}

var nothing = redisfence.NewScript(`return 1`)

func (r resource) Check(token uint64) error {
	return nothing.Run(context.Background(), r.c, r.key, token, nil).Err()
}

func (r resource) CheckShared(token uint64) error {
	return nothing.RunShared(context.Background(), r.c, r.key, token, nil).Err()
}

func TestSharedOrder(t *testing.T) {
	r := resource{connect(t), "{shared}:fence"}
	for i, step := range []struct {
		check func(uint64) error
		token uint64
		want  error
		seen  uint64
		value string // of the key afterwards
	}{
		{r.CheckShared, 0, lock.ErrInvalid, 0, ""},
		{r.CheckShared, 10, nil, 0, ":10"},
		{r.CheckShared, 9, nil, 0, ":10"}, // beside the other
		{r.Check, 9, fence.ErrStale, 10, ":10"},
		{r.Check, 10, nil, 0, "10"},
		{r.CheckShared, 9, fence.ErrStale, 10, "10"},
		{r.CheckShared, 10, nil, 0, "10:10"},
		{r.CheckShared, exact + 1, nil, 0, fmt.Sprint("10:", exact+1)},
		{r.Check, exact, fence.ErrStale, exact + 1, fmt.Sprint("10:", exact+1)},
		{r.CheckShared, exact, nil, 0, fmt.Sprint("10:", exact+1)},
		{r.CheckShared, 9, fence.ErrStale, 10, fmt.Sprint("10:", exact+1)},
		{r.Check, exact + 2, nil, 0, fmt.Sprint(exact + 2)},
		{r.CheckShared, math.MaxInt64, nil, 0, fmt.Sprint(exact+2, ":", math.MaxInt64)},
		{r.Check, math.MaxInt64 - 1, fence.ErrStale, math.MaxInt64, fmt.Sprint(exact+2, ":", math.MaxInt64)},
		{r.Check, math.MaxInt64, nil, 0, fmt.Sprint(math.MaxInt64)},
		{r.CheckShared, math.MaxInt64 + 1, lock.ErrInvalid, 0, fmt.Sprint(math.MaxInt64)},
	} {
		err := step.check(step.token)
		if value := r.c.Get(t.Context(), r.key).Val(); !errors.Is(err, step.want) || value != step.value {
			t.Errorf("step %d, token %d: error %v, want %v; the key has %q, want %q", i, step.token, err, step.want,
				value, step.value)
		}
		stale := (*fence.StaleError)(nil)
		if errors.As(err, &stale) && *stale != (fence.StaleError{Resource: r.key, Token: step.token, Seen: step.seen}) {
			t.Errorf("step %d, token %d: %+v, want seen %d", i, step.token, *stale, step.seen)
		}
	}
}

// In random histories, no live holder is refused, and no stale holder is accepted.
func TestHistories(t *testing.T) {
	c := connect(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var sum fencetest.Verdict
	const histories, steps = 300, 40
	for i := range histories {
		v, err := fencetest.History(random, resource{c, fmt.Sprint("history:", i)}, steps)
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(v)
	}
	t.Logf("%+v", sum)
	if sum.LiveRefused > 0 || sum.StaleAccepted > 0 {
		t.Errorf("%d live holders refused, %d stale ones accepted", sum.LiveRefused, sum.StaleAccepted)
	}
	if sum.Stale < histories/10 || sum.Live < histories {
		t.Errorf("only %d stale and %d live holders have acted", sum.Stale, sum.Live)
	}
}
