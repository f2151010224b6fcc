package conformance

import (
	"fmt"
	"sync"
	"time"
)

// stall is how long the machine must have stood still to count.
const stall = 50 * time.Millisecond

// A pulse measures for how long this process has stood still at most, and for how long the store has not answered.
type pulse struct {
	mu        sync.Mutex
	longest   time.Duration
	slowest   time.Duration // of the answers that the store owed at once
	requested time.Time     // when watchStore sent its request, zero once it has the answer

	watchers int // of the store
	unwatch  func()
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

// answered records the duration of a reply.
func (p *pulse) answered(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowest = max(p.slowest, took)
}

// silent is the longest time that the store has taken to answer, 0 if it was hardly slow.
func (p *pulse) silent() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest := p.slowest
	if !p.requested.IsZero() {
		longest = max(longest, time.Since(p.requested))
	}
	if longest <= slow {
		return 0
	}
	return longest
}

func (p *pulse) beginRequest(begun time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requested = begun
}

func (p *pulse) endRequest(begun time.Time) {
	p.answered(time.Since(begun))
	p.beginRequest(time.Time{})
}

// watchStore measures how long the store takes to answer until the function that it returns is called. A check that
// waits for the store sends no requests itself, and would not notice a pause of the store. The probes inspect unused
// keys: a store may end a lease, or wake a waiter, because of a request for its key.
func (t *trial) watchStore() (end func()) {
	p := &t.pulse
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchers++; p.watchers == 1 {
		done := make(chan struct{})
		p.unwatch = func() { close(done) }
		t.spawn(func() { t.probeUntil(done) })
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.watchers--; p.watchers == 0 {
			p.unwatch()
		}
	})
}

func (t *trial) probeUntil(done <-chan struct{}) {
	const every = slow / 4
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.ctx.Done():
			return
		case <-timer.C:
		}
		t.probeStore()
		timer.Reset(every)
	}
}

func (t *trial) probeStore() {
	begun := time.Now()
	t.pulse.beginRequest(begun)
	_, _ = t.b.Inspect(t.ctx, t.newKey())
	t.pulse.endRequest(begun)
}

// notInTime records that the store did something too late or out of turn, and ends the goroutine that it is called on.
// A store may pass over a client that does not answer, so nothing is proven if this process stood still. A store that
// stood still without the check's doing breaks the rule only if every attempt sees the same.
func (t *trial) notInTime(rule, format string, args ...any) {
	if still := t.stoodStill(); still != "" {
		t.lateFor(rule, t.machineIsSlow(), format+"; %s", append(args, still)...)
	}
	t.breaksText(rule, format, args...)
}

// machineIsSlow reports whether this process has stood still for so long that it explains what a store did not do in
// time.
func (t *trial) machineIsSlow() bool {
	const long = time.Second // a store may pass over a client that does not answer for less, but not in every attempt
	return t.pulse.stood() >= long
}

// overdue reports whether a call that was to return soon after limit took longer, and not because this process stood
// still for most of that.
func (t *trial) overdue(took, limit time.Duration) bool {
	late := took - limit
	if late <= soon {
		return false
	}
	time.Sleep(tick) // the pulse has noticed by then
	return t.pulse.stood() < late/2
}

// stoodStill describes what kept the store from being in time: a pause of this process or an outage. Empty if nothing
// did.
func (t *trial) stoodStill() string {
	if stood := t.pulse.stood(); stood > 0 {
		return fmt.Sprintf("this process stood still for %v", stood)
	}
	if silent := t.silence(); silent > 0 {
		return fmt.Sprintf("the store took %v to answer", silent)
	}
	return ""
}

// silence is the longest time in which the store has answered nothing although the check has not disturbed it, 0 if
// there was none.
func (t *trial) silence() time.Duration {
	if t.alone {
		return 0
	}
	return min(t.pulse.silent(), soon)
}
