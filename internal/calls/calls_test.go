package calls

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func TestDrainWaitsForWhatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		c.Drain(time.Hour) // no call is in progress
		if !c.Begin() || c.Idle() {
			t.Error("a call is not counted")
		}
		c.Background(func() { time.Sleep(time.Second) })
		begun := time.Now()
		time.AfterFunc(2*time.Second, c.End)
		c.Drain(time.Hour)
		if took := time.Since(begun); took != 2*time.Second || !c.Idle() {
			t.Errorf("drained after %v, idle %v", took, c.Idle())
		}
		c.Begin()
		begun = time.Now()
		c.Drain(time.Second)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("gave up after %v", took)
		}
		c.End()
	})
}

func TestSealed(t *testing.T) {
	var c Calls
	c.Seal()
	if c.Begin() || c.Background(func() { t.Error("ran") }) || !c.Idle() {
		t.Error("a call begins after the seal")
	}
}
