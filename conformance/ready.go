package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var readyChecks = []Check{
	{
		Name: "ReadyStoreSaysSo",
		Rule: "Readiness.NotReady is nil while the store grants; Capacity.Capacity is not negative, and honours its context",
		run:  readyStoreSaysSo,
	},
}

func readyStoreSaysSo(t *trial) {
	ready, isReady := t.a.(backend.Readiness)
	capacity, hasCapacity := t.a.(backend.Capacity)
	if !isReady && !hasCapacity {
		t.skipf("the store is neither a Readiness nor a Capacity")
	}
	if isReady {
		g := t.acquire(t.a, t.key, t.long())
		if err := ready.NotReady(); err != nil {
			t.fatalf("NotReady of a store that has just granted a key: %v", err)
		}
		t.release(g)
	}
	if !hasCapacity {
		return
	}
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	for range 20 { // a client that wrongly makes the request races its reply against the end of the context
		if _, err := capacity.Capacity(ended); !errors.Is(err, context.Canceled) {
			t.fatalf("Capacity with an ended context: %v, want context.Canceled", err)
		}
	}
	begun := time.Now()
	room, err := capacity.Capacity(t.ctx)
	t.lateOnTimeout(err, begun)
	if err != nil || room < 0 {
		t.fatalf("Capacity of a store that serves: %d, error %v", room, err)
	}
}
