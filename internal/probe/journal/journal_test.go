package journal_test

import (
	"strings"
	"testing"

	"github.com/anylock/lock/internal/probe/journal"
)

// Each journal contains one kind of error, or none.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name                     string
		lines                    string
		violations, early, error int
	}{
		{name: "readers share", lines: "+ 1.1 r k 1 10 90\n+ 2.1 r k 2 20 90\n- 1.1 30\n- 2.1 40"},
		{name: "one after the other", lines: "+ 1.1 w k 1 10 90\n- 1.1 30\n+ 2.1 w k 2 30 90\n- 2.1 40\n+ 1.2 r k 3 41 90"},
		{name: "reader beside writer", lines: "+ 1.1 w k 1 10 90\n+ 2.1 r k 2 20 90\n- 1.1 30\n- 2.1 40", violations: 1},
		{name: "writer beside reader", lines: "+ 1.1 r k 1 10 90\n+ 2.1 w k 2 20 90\n- 1.1 30\n- 2.1 40", violations: 1},
		{name: "two writers", lines: "+ 1.1 w k 1 10 90\n+ 2.1 w k 2 20 90\n- 1.1 30\n- 2.1 40", violations: 1},
		{name: "writer beside two readers", violations: 2,
			lines: "+ 1.1 r k 1 10 90\n+ 3.1 r k 2 11 90\n+ 2.1 w k 3 20 90\n- 1.1 30\n- 3.1 30\n- 2.1 40"},
		{name: "lines in another order", violations: 1,
			lines: "+ 2.1 w k 2 20 90\n- 2.1 40\n+ 1.1 r k 1 10 90\n- 1.1 30"},
		{name: "another key", lines: "+ 1.1 w k 1 10 90\n+ 2.1 w l 2 20 90\n- 1.1 30\n- 2.1 40"},
		{name: "a reader that ends later hides none before", violations: 1,
			lines: "+ 1.1 r k 1 10 90\n+ 2.1 r k 2 11 40\n+ 3.1 w k 3 50 90\n- 2.1 40\n- 1.1 60\n- 3.1 70"},
		{name: "the deadline ends a stopped holder",
			lines: "+ 1.1 w k 1 10 90\n! 1 20 stop\n+ 2.1 w k 2 90 120\n! 1 95 cont\nx 1.1 96\n- 2.1 99"},
		{name: "not before the deadline", violations: 1,
			lines: "+ 1.1 w k 1 10 90\n! 1 20 stop\n+ 2.1 w k 2 89 120\n! 1 95 cont\nx 1.1 96\n- 2.1 99"},
		{name: "a renewal moves the deadline", violations: 1,
			lines: "+ 1.1 r k 1 10 90\n= 1.1 50 130\n! 1 60 stop\n+ 2.1 w k 2 95 120\n- 2.1 99"},
		{name: "a kill ends a holder", lines: "+ 1.1 w k 1 10 90\n! 1 20 kill\n+ 2.1 w k 2 21 90\n- 2.1 40"},
		{name: "not before the kill", lines: "+ 1.1 w k 1 10 90\n+ 2.1 w k 2 19 90\n! 1 20 kill\n- 2.1 40", violations: 1},
		{name: "the kill of another", lines: "+ 1.1 w k 1 10 90\n! 3 15 kill\n+ 2.1 w k 2 19 90\n- 2.1 40", violations: 1},
		{name: "a loss ends a holder", lines: "+ 1.1 w k 1 10 90\nx 1.1 20\n+ 2.1 w k 2 21 90\n- 2.1 40"},
		{name: "early loss without a reset", violations: 1,
			lines: "+ 1.1 w k 1 10 90\n+ 2.1 w k 2 19 90\nx 1.1 20\n- 2.1 40"},
		{name: "early loss by a reset", early: 1,
			lines: "+ 1.1 w k 1 10 90\n! 1 15 reset\n+ 2.1 w k 2 19 90\nx 1.1 20\n- 2.1 40"},
		{name: "a reset before the lease excuses nothing", violations: 1,
			lines: "! 1 5 reset\n+ 1.1 w k 1 10 90\n+ 2.1 w k 2 19 90\nx 1.1 20\n- 2.1 40"},
		{name: "a reset excuses no lease that was not lost", violations: 1,
			lines: "+ 1.1 w k 1 10 90\n! 1 15 reset\n+ 2.1 w k 2 19 90\n- 1.1 20\n- 2.1 40"},
		{name: "a writer's token below a reader's", violations: 1,
			lines: "+ 1.1 r k 5 10 90\n- 1.1 20\n+ 2.1 w k 4 30 90\n- 2.1 40"},
		{name: "a reader's token below a writer's", violations: 1,
			lines: "+ 1.1 w k 5 10 90\n- 1.1 20\n+ 2.1 r k 5 30 90\n- 2.1 40"},
		{name: "a writer's token below the highest reader's", violations: 1,
			lines: "+ 1.1 r k 5 10 90\n+ 2.1 r k 3 11 90\n- 1.1 20\n- 2.1 20\n+ 3.1 w k 4 30 90\n- 3.1 40"},
		{name: "readers' tokens have no order", lines: "+ 1.1 r k 5 10 90\n+ 2.1 r k 3 11 90\n- 1.1 20\n- 2.1 20"},
		{name: "an error", lines: "? 1 10 lock: invalid", error: 1},
		{name: "a line that a kill has cut off", lines: "+ 1.1 w k 1 10 90\n! 1 20 kill\n+ 2.1 w k 2 19"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.lines + "\n"
			if strings.Contains(c.name, "cut off") {
				text = c.lines
			}
			j, err := journal.Read(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			v := j.Check()
			if len(v.Violations) != c.violations || len(v.EarlyLoss) != c.early || len(v.Errors) != c.error {
				t.Errorf("want %d violations, %d early losses, %d errors:\n%v", c.violations, c.early, c.error, v)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	for _, line := range []string{
		"", "+", "+ 1.1 w k 1 10", "+ 1.1 w k x 10 90", "= 1.1 10 90", "- 1.1 x", "hello", "! 1 20",
	} {
		if _, err := journal.Read(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}

func TestCounts(t *testing.T) {
	j, err := journal.Read(strings.NewReader(strings.Join([]string{
		"+ 1.1 r k 1 10 90", "+ 2.1 r k 2 20 90", "! 1 25 stop", "! 2 26 kill", "+ 3.1 r k 3 30 90", "- 3.1 31",
		"+ 3.2 w l 4 32 40", "- 3.2 35", "",
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	v := j.Check()
	if v.Readers != 3 || v.Writers != 1 || v.Abreast != 2 || v.StoppedHolding != 1 || v.Ended["reader killed"] != 1 ||
		v.Ended["reader held"] != 1 || v.Ended["reader released"] != 1 || v.Faults["kill"] != 1 {
		t.Errorf("%+v", v)
	}
}
