package conformance

import (
	"sync"
	"time"
)

// stall is how long the machine must have stood still to count.
const stall = 50 * time.Millisecond

// A pulse tells for how long at most this process has stood still.
type pulse struct {
	mu      sync.Mutex
	longest time.Duration
}

// beat measures until done is closed.
func (p *pulse) beat(done <-chan struct{}) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for due := time.Now().Add(tick); ; due = time.Now().Add(tick) {
		timer.Reset(time.Until(due))
		select {
		case <-done:
			return
		case now := <-timer.C:
			p.mu.Lock()
			p.longest = max(p.longest, now.Sub(due), time.Since(due))
			p.mu.Unlock()
		}
	}
}

// watchPulse measures until the function that it returns is called.
func (t *trial) watchPulse() (end func()) {
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() { t.pulse.beat(done) })
	return func() { close(done); beating.Wait() }
}

// stood is the longest time that this process has stood still, 0 if it hardly has.
func (p *pulse) stood() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.longest <= stall {
		return 0
	}
	return p.longest
}

// notInTime records that a store has done something too late, or out of turn, and ends the goroutine it is called on. A store may pass
// over a client that does not answer, so that where this process has stood still nothing is proven.
func (t *trial) notInTime(rule, format string, args ...any) {
	if stood := t.pulse.stood(); stood > 0 {
		t.tooLate("this process stood still for %v; "+format, append([]any{stood}, args...)...)
	}
	t.breaksText(rule, format, args...)
}
