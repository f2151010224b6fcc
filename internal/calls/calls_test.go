package calls

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func TestCloseWaitsForCalls(t *testing.T) {
	for what, c := range map[string]struct {
		call, limit, took time.Duration
	}{
		"no call":     {0, time.Hour, 0},
		"ends":        {2 * time.Second, time.Hour, 2 * time.Second},
		"is too long": {2 * time.Second, time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls Calls
			if c.call > 0 {
				if !calls.Begin() || calls.Idle() {
					t.Error("a call is not counted")
				}
				time.AfterFunc(c.call, calls.End)
				calls.Background(func() { time.Sleep(c.call / 2) })
			}
			begun := time.Now()
			calls.Close(c.limit)
			if took := time.Since(begun); took != c.took || calls.Idle() != (took >= c.call) {
				t.Errorf("%s: closed after %v, idle %v", what, took, calls.Idle())
			}
			calls.Background(func() { t.Error("ran") })
			if calls.Begin() {
				t.Error("a call begins after Close")
			}
			time.Sleep(c.call)
			if synctest.Wait(); !calls.Idle() {
				t.Errorf("%s: a call is still counted", what)
			}
		})
	}
}
