package conformance

import (
	"sync"
	"testing"
)

// A double grant breaks rule 1, even if another goroutine of the check was late before it, or fails after it.
func TestDoubleGrantOutweighsLateness(t *testing.T) {
	trial := &trial{status: Pass, rule: "rule 9: as an example"}
	for _, f := range []func(){
		func() { trial.tooLate("a goroutine was too late") },
		func() { trial.doubleGrant("two owners") },
		func() { trial.breaks(9, "something else") },
	} {
		var ended sync.WaitGroup
		ended.Go(f)
		ended.Wait()
	}
	if end := trial.outcome(); end.status != Fail || end.broken != ruleTexts[1] {
		t.Errorf("%s of %q", end.status, end.broken)
	}
}
