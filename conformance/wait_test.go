package conformance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// poll waits for its full time limit.
func TestPollWaitsInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial, begun := &trial{ctx: context.Background()}, time.Now()
		const patience = 100 * time.Millisecond
		if trial.poll(patience, func() bool { return false }) {
			t.Error("what never happens was seen")
		}
		if waited := time.Since(begun); waited < patience || waited > patience+tick {
			t.Errorf("it waits for %v, want %v", waited, patience)
		}
	})
}
