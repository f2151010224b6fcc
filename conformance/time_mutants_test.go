package conformance_test

import (
	"context"
	"slices"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// timeMutants are bugs in how late a waiter learns of its turn, and in how often it polls until then.
var timeMutants = []mutant{
	{"expiry wakes a waiter 4 seconds late", "WaiterIsNotLate"},
	{"expiry of a renewed lease wakes a waiter 3 seconds late", "WaiterIsNotLate"},
	{"expiry of a waiter's own lease wakes the next 3 seconds late", "WaiterIsNotLate"},
	{"expiry wakes a waiter 4 seconds late once another has left", "WaiterIsNotLate"},
	{"waiter that leaves delays the next by 3 seconds", "WaiterIsNotLate"},
	{"second expiry in a row wakes a waiter 3 seconds late", "WaiterIsNotLate"},
	{"expiry just after a waiter came wakes it 3 seconds late", "WaiterIsNotLate"},

	{"waiter looks every 100 ms", "PushIsPrompt"},
	{"waiter looks every 300 ms", "PushIsPrompt"},
	{"waiters behind the first look every 200 ms", "PushIsPrompt"},
	{"third waiter and those behind it look every 200 ms", "PushIsPrompt"},
	{"waiter looks every 300 ms after a second", "PushIsPrompt"},
	{"waiter looks ever less often", "PushIsPrompt"},

	{"waiter asks without pause", "WaitingPollsSeldom"},
	{"waiter asks every millisecond", "WaitingPollsSeldom"},
	{"waiters behind the first ask without pause", "WaitingPollsSeldom"},
	{"cancelled waiter goes on asking", "WaitingPollsSeldom"},
	{"waiter asks without pause once the holder's first TTL is over", "WaitingPollsSeldom"},
	{"waiter asks without pause after a second", "WaitingPollsSeldom"},
	{"holder asks after its lease without pause", "WaitingPollsSeldom"},
}

// lateFor returns how long after the expiry of e's lease the server ends the lease.
func (s *server) lateFor(e *entry) time.Duration {
	const late = 3 * time.Second
	switch {
	case s.is("attempt that meets an expired lease passes those who wait",
		"waiter that meets an expired lease passes those who wait",
		"shared attempt that meets a dead writer passes those who wait",
		"reader that comes to wait as a writer has died passes those who wait"):
		return 15 * time.Millisecond
	case s.is("expiry wakes a waiter 4 seconds late"),
		s.is("expiry wakes a waiter 4 seconds late once another has left") && e.left:
		return 4 * time.Second
	case s.is("expiry of a renewed lease wakes a waiter 3 seconds late") && !e.renewed.IsZero(),
		s.is("expiry of a waiter's own lease wakes the next 3 seconds late") && e.waited,
		s.is("waiter that leaves delays the next by 3 seconds") && e.left,
		s.is("second expiry in a row wakes a waiter 3 seconds late") && e.waited && e.expired,
		s.is("expiry just after a waiter came wakes it 3 seconds late") && time.Until(e.expires) < 60*time.Millisecond &&
			slices.ContainsFunc(e.queue, func(p *place) bool { return time.Since(p.since) < time.Millisecond }):
		return late
	}
	return 0
}

// looks delays a waiter at its turn until its next poll, as a bug.
func (c *client) looks(p *place) {
	every := func(d time.Duration) {
		time.Sleep(d - time.Since(p.since)%d) // sleeps: until the waiter polls next
	}
	switch {
	case c.is("waiter looks once a second"), c.looksRarely(p), c.events.remote && c.is(processPolls):
		every(time.Second)
	case p.missed:
		every(5 * time.Second)
	case c.is("waiter looks every 100 ms"):
		every(100 * time.Millisecond)
	case c.is("waiter looks every 300 ms"),
		c.is("reader behind a writer looks every 300 ms") && p.Shared && !p.beside,
		c.is("reader behind a waiting writer looks every 300 ms") && p.Shared && p.beside,
		c.is("writer behind readers looks every 300 ms") && !p.Shared && p.beside,
		p.slow:
		every(300 * time.Millisecond)
	case c.is("waiters behind the first look every 200 ms") && p.before > 0,
		c.is("third waiter and those behind it look every 200 ms") && p.before > 1:
		every(200 * time.Millisecond)
	case c.is("waiter looks every 300 ms after a second") && time.Since(p.since) > time.Second:
		every(300 * time.Millisecond)
	case c.is("waiter looks ever less often"):
		every(max(time.Millisecond, time.Since(p.since).Truncate(time.Second)/4))
	}
}

// asks applies the bugs of a waiter that polls too often. over is closed when the wait ends.
func (c *client) asks(p *place, over <-chan struct{}) {
	if c.wire == nil {
		return
	}
	pause := time.Duration(0)
	switch {
	case c.is("waiter asks without pause"), c.is("waiters behind the first ask without pause") && p.before > 0:
	case c.is("waiter asks every millisecond"), p.Shared && c.is(readerAsks):
		pause = time.Millisecond
	case c.is("cancelled waiter goes on asking"):
		go func() {
			<-over
			c.asksUntil(c.done, 2*time.Millisecond)
		}()
		return
	case c.is("waiter asks without pause once the holder's first TTL is over"):
		c.asksFrom(p.first, over)
		return
	case c.is("waiter asks without pause after a second"):
		c.asksFrom(p.since.Add(time.Second), over)
		return
	case c.is(hugePolls):
		go c.asksBehindHuge(p.Key, over)
		return
	case c.is("waiter that queues again after a cut asks without pause"):
		if _, again := c.contact.asked.Load(p.Owner); !again {
			return
		}
	default:
		return
	}
	go c.asksUntil(over, pause)
}

// asksFrom polls without pause from the time at, until over is closed.
func (c *client) asksFrom(at time.Time, over <-chan struct{}) {
	timer := time.AfterFunc(time.Until(at), func() { c.asksUntil(over, 0) })
	go func() {
		<-over
		timer.Stop()
	}()
}

// asksUntil sends requests without effect until over is closed or the client is closed.
func (c *client) asksUntil(over <-chan struct{}, pause time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-over:
		case <-c.done:
		}
		cancel()
	}()
	for ; ctx.Err() == nil && !c.wire.isDead(); time.Sleep(pause) {
		_ = c.do(ctx, func() {})
	}
}

// asksAfter polls without pause while life is held, for at most 3 seconds, as a bug.
func (c *client) asksAfter(life *kit.Life) {
	if c.wire == nil || !c.is("holder asks after its lease without pause") && !c.readerStaysBusy(life) {
		return
	}
	over := make(chan struct{})
	time.AfterFunc(min(time.Until(life.Deadline()), 3*time.Second), func() { close(over) })
	go c.asksUntil(over, 0)
}
