package conformance

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/memory"
)

// A check that is too late releases its leases. If another goroutine of the check is then granted the key, that is not
// a double grant.
func TestLateTrialGivesKeysBack(t *testing.T) {
	b := memory.New()
	defer b.Close()
	c := &clusterTrial{trial: &trial{ctx: context.Background(), g: b.Guarantees(), a: b, b: b, status: Pass,
		keyOf: make(map[string]string)}}
	g := c.acquire(b, c.newKey(), time.Minute)
	c.ends(func() { c.tooLate("the check is too late") })
	if err := g.Release(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.ends(func() { c.intrude(b, g) })
	if end := c.outcome(); end.status != late {
		t.Errorf("%s: %s", end.status, end.output)
	}
}

// A call counts as failed if its goroutine has failed the check.
func TestCallWithoutAnswerIsNoSuccess(t *testing.T) {
	trial := &trial{ctx: context.Background(), status: Pass}
	c := trial.call(func() error { trial.fatalf("a batch of 1 lease has 0 errors"); return nil })
	if err := c.ends(trial, soon, "RenewBatch"); err == nil {
		t.Error("a call that ended its goroutine counts as a success")
	}
}

// ends runs f, which may end its goroutine, and waits for it.
func (t *trial) ends(f func()) {
	var ended sync.WaitGroup
	ended.Go(f)
	ended.Wait()
}
