package eager

import "testing"

// trials counts how many of n replies are polled for.
func (p *pace) trials(n int, soon bool) (trials int) {
	for range n {
		if !p.ready() {
			continue
		}
		trials++
		if soon {
			p.soon()
		} else {
			p.late()
		}
	}
	return trials
}

// Replies from a distant peer are hardly ever polled for. Once replies arrive soon again, all are polled for after a
// while.
func TestPace(t *testing.T) {
	var p pace
	if n := p.trials(1000, true); n != 1000 {
		t.Errorf("%d of 1000 answers were looked for that came soon", n)
	}
	if n := p.trials(100_000, false); n < 100 || n > 500 {
		t.Errorf("%d of 100000 answers were looked for that came late", n)
	}
	p.trials(2*mostRest, true)
	if n := p.trials(100, true); n != 100 {
		t.Errorf("%d of 100 answers were looked for that came soon again", n)
	}
}

// If every other reply is late, some of the others are still polled for, and not every late reply is.
func TestPaceOfMixedAnswers(t *testing.T) {
	var p pace
	soon, late := 0, 0
	for i := range 10_000 {
		switch {
		case !p.ready():
		case i%2 == 0:
			soon++
			p.soon()
		default:
			late++
			p.late()
		}
	}
	if soon < 500 || late > 3000 {
		t.Errorf("of 5000 answers each %d were looked for that came soon, %d that came late", soon, late)
	}
}
