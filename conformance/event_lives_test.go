package conformance_test

import (
	"context"
	"slices"
	"time"
)

// The bugs of an oddLife that are in eventMutants.
const (
	closeKeepsWaited  = "Close leaves Lost of leases that were waited for open"
	closeKeepsRenewed = "Close leaves Lost of renewed leases open"
	renewEndsWith     = "renewed lease ends at the deadline of its Renew's context"
	endedPolls        = "Release whose context has ended wakes the next waiter by a timer"
	releasesTurns     = "each of several Releases at once gives the key to a waiter"
	cancelLoses       = "Renew that is cancelled under way closes Lost"
	resumeTakes       = "resume by the lease's own client stops the timer of its first lease"
)

// hasOddLives reports whether leases of the client are oddLives.
func (c *client) hasOddLives() bool {
	return c.is(readersOldTimer, closeKeepsWaited, closeKeepsRenewed, renewEndsWith, endedPolls, releasesTurns,
		cancelLoses, renewalCancels, releaseCancels, resumeTakes) ||
		slices.ContainsFunc(lifeMutants, func(m mutant) bool { return c.is(m.bug) })
}

// losesUnlessClosed closes Lost, but not at Close if the lease was waited for, or was renewed, as a bug.
func (o *oddLife) losesUnlessClosed() {
	_, queued := o.c.events.queued.Load(o.Owner())
	if o.c.leases.Closed() && (queued && o.is(closeKeepsWaited) || o.renewed.Load() && o.is(closeKeepsRenewed)) {
		return
	}
	if o.taken.Load() && !time.Now().Before(o.Deadline()) {
		return
	}
	o.loses()
}

// takesTimer registers o as the lease of its owner. If o was resumed by the client that had it, the timer of the first
// lease is lost, as a bug.
func (o *oddLife) takesTimer(resumed bool) {
	if !o.is(resumeTakes) {
		return
	}
	if first, again := o.c.byOwner.Swap(o.Owner(), o); again && resumed {
		first.(*oddLife).taken.Store(true)
	}
}

// renewsUntil ends the lease at the deadline of ctx, with which it was renewed, as a bug.
func (o *oddLife) renewsUntil(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok && end.Before(o.Deadline()) && o.is(renewEndsWith) {
		_ = o.c.do(context.Background(), func() {
			o.c.server.renew(o.Key(), o.Owner(), o.c, max(shortest, time.Until(end)))
		})
	}
}

// releases applies the bugs of a Release before its request, and returns a function that applies those after it.
func (o *oddLife) releases(ctx context.Context) (then func()) {
	if ctx.Err() != nil && o.is(endedPolls) {
		o.c.server.silencesFirst(o.Key())
	}
	again := o.begun.Add(1) > 1
	return func() {
		if again && o.is(releasesTurns) {
			o.c.server.endsAgain(o.Key())
		}
	}
}

// endsAgain ends the lease of key if others wait for it.
func (s *server) endsAgain(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.name(key)
	if e := s.entryLocked(key); len(e.queue) > 0 {
		s.endLocked(key, e)
	}
}
