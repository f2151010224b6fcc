package servers

import (
	"strconv"
	"testing"
	"time"

	"github.com/anylock/lock/internal/skew"
)

// The clock of a server can be stepped, and is right again after a restart.
func TestStepClock(t *testing.T) {
	t.Parallel()
	s := Redis(t)
	step := s.StepClock()
	if step == nil {
		if skew.Possible() {
			t.Fatal("no clock to step")
		}
		t.Skip("clocks cannot be stepped on this system")
	}
	off := func() time.Duration {
		seconds, err := strconv.ParseInt(ask(t, s, "TIME").([]any)[0].(string), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(time.Unix(seconds, 0)).Round(time.Minute)
	}
	for _, want := range []time.Duration{time.Hour, -time.Hour, 0} {
		if step(want - off()); off() != want {
			t.Errorf("the clock is off by %v, want %v", off(), want)
		}
	}
	step(time.Hour)
	s.Kill()
	s.Start()
	if off() != 0 {
		t.Errorf("after a restart the clock is off by %v", off())
	}
}
