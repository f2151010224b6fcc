package conformance

import (
	"fmt"
	"sync"
	"time"
)

// stall is the shortest standstill of the machine that counts.
const stall = 50 * time.Millisecond

// A pulse measures how long this process stood still at most, and how long the store took to reply at most.
type pulse struct {
	mu        sync.Mutex
	longest   time.Duration
	measured  time.Time     // when longest was last brought up to date
	slowest   time.Duration // slowest reply to a request that does not wait
	requested time.Time     // when watchStore sent its pending request; zero if none is pending

	watchers int // number of active calls of watchStore
	unwatch  func()
}

// beat measures standstills of this process until done is closed.
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
			p.measured = time.Now()
			p.longest = max(p.longest, now.Sub(due), p.measured.Sub(due))
			p.mu.Unlock()
		}
	}
}

// watchPulse measures standstills of this process until the returned function is called. In fake time there are none.
func (t *trial) watchPulse() (end func()) {
	if bubbleName() != "" {
		return func() {}
	}
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() { t.pulse.beat(done) })
	return func() { close(done); beating.Wait() }
}

// catchUp waits until a standstill that has just ended counts. On a busy machine, that may take longer than a tick.
func (p *pulse) catchUp() {
	if bubbleName() != "" {
		return
	}
	for from := time.Now(); time.Since(from) < soon; time.Sleep(tick) {
		p.mu.Lock()
		done := p.measured.After(from)
		p.mu.Unlock()
		if done {
			return
		}
	}
}

// longestStandstill returns the longest time that this process stood still, or 0 if that was no more than stall.
func (p *pulse) longestStandstill() time.Duration {
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

// slowestReply returns the longest time that the store took to reply, or 0 if that was no more than slow.
func (p *pulse) slowestReply() time.Duration {
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

// watchStore measures how long the store takes to reply, until the returned function is called. A check that waits for
// the store sends no requests itself, and would not notice a pause of the store. The probes inspect unused keys,
// because a request for a key may make the store end a lease or wake a waiter.
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

// notInTime records that the store did something too late or out of turn, and ends the calling goroutine. If this
// process stood still, nothing is proven, because a store may skip a client that does not respond. If the store stood
// still and the check did not cause that, the rule is broken only if every attempt sees the same.
func (t *trial) notInTime(rule, format string, args ...any) {
	if still := t.stoodStill(); still != "" {
		t.lateFor(rule, t.machineIsSlow(), format+"; %s", append(args, still)...)
	}
	t.breaksText(rule, format, args...)
}

// machineIsSlow reports whether this process stood still long enough to explain that the store did not act in time.
func (t *trial) machineIsSlow() bool {
	const long = time.Second // a store may skip a client that stood still for less, but not in every attempt
	return t.pulse.longestStandstill() >= long
}

// overdue reports whether a call that had to return soon after limit took longer. It returns false if this process
// stood still for half of the delay or more.
func (t *trial) overdue(took, limit time.Duration) bool {
	late := took - limit
	if late <= soon {
		return false
	}
	t.pulse.catchUp()
	return t.pulse.longestStandstill() < late/2
}

// stoodStill describes what kept the store from being in time: a standstill of this process or of the store. It returns
// an empty string if there was none.
func (t *trial) stoodStill() string {
	if stood := t.pulse.longestStandstill(); stood > 0 {
		return fmt.Sprintf("this process stood still for %v", stood)
	}
	if silent := t.silence(); silent > 0 {
		return fmt.Sprintf("the store took %v to answer", silent)
	}
	return ""
}

// silence returns the longest time in which the store did not reply, at most soon. It returns 0 if there was none, or
// if the check may have disturbed the store.
func (t *trial) silence() time.Duration {
	if t.alone {
		return 0
	}
	return min(t.pulse.slowestReply(), soon)
}
