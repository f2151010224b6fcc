package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// narrowMutants are bugs of waiters, of requests without a reply, and of Close, that show only in narrow situations.
var narrowMutants = []mutant{
	{"batch that shortens a lease sets no timer", "WaiterOutlastsShortenedLease"},
	{"waiter that gives up silences its client's others for the key", "PushIsPrompt"},
	{"waiter that gives up silences its client's others for other keys", "PushIsPrompt"},
	{"break wakes the next waiter by a timer", "PushIsPrompt"},
	{"expiry wakes a waiter of the holder's client 3 seconds late", "WaiterIsNotLate"},
	{"resume sends who waits first to the end", "EventsKeepQueue"},
	{"attempt just after a Break passes those who wait", "TryDisturbsNoWaiter"},
	{"waiter that comes within 2 ms of the expiry is parked", "WaiterGetsExpiredKey"},
	{"lease that was waited for in vain ends a second late", "LeasesAreAlike"},
	{"renewal whose connection broke drops who waits first", "FaultyHolderKeepsQueue"},
	{"release sent again drops who waits first", "FaultyHolderKeepsQueue"},
	{"late release after an expiry drops who waits first", "LateReleaseSparesNext"},
	{"late renewal after an expiry drops who waits first", "LateRenewSparesNext"},
	{"clean-up of an attempt whose connection broke ends any lease of its client", "LostAcquireReplyLeavesNothing"},
	{"break compares, then ends whoever holds the key", "BreakSparesNext"},
	{"renewal takes the TTL away first", "KilledInsideRenew"},
	{"Close drops the clean-up of attempts without an answer", "CloseFinishesReleases"},
	{"Close ends a Release under way", "CloseFinishesReleases"},
	{"Close removes waiters from the queue of one key alone", "CloseEndsWaiting"},
	{"Close leaves waiters waiting that cannot connect", "PartitionedCloseIsBounded"},
	{"cancelled waiter returns when its client can connect again", "RefusedDialIsUnavailable"},
	{"wait that is cancelled while its client cannot connect is unavailable", "RefusedDialIsUnavailable"},
	{"client that was cut is notified for one key alone", "ReconnectedWaiterIsWoken"},
	{"client that was cut twice is woken by a timer", "ReconnectedWaiterIsWoken"},
	{"waiter that queues again keeps the token of its first arrival", "ReconnectedWaiterSparesOthers"},
	{"waiter's patience is for all outages together", "EachWaiterOutlivesOutage"},
	{"first Inspect of a key after a cut returns what was seen before", "DisconnectedHolderKeepsLease"},
	{"waiter that queues again after a cut asks without pause", "WaitingPollsSeldom"},
	{"attempt without an answer leaves a goroutine until Close", "EndedCallsLeaveNoConnection"},
	{"renewal without an answer leaves a goroutine until Close", "EndedCallsLeaveNoConnection"},
	{"reader that queues again after a cut passes a waiting writer", "CutSharedWaitersGetTurn"},
	{"restart begins leases anew that others wait for", "RestartKeepsDeadlines"},
	{"waiter that has outlived a restart is parked by the next one", "RestartServesAllWaiters"},
	{"second restart drops leases that were not renewed since the first", "RestartServesAllWaiters"},
	{"waiters are woken by a timer after a restart", "RestartServesAllWaiters"},
	{"cancelled wait for its turn among MaxLeases takes its turn along", "MaxLeasesAreGranted"},
	{"wait for its turn among MaxLeases ignores its context", "MaxLeasesAreGranted"},
	{"cancelled wait for its turn among MaxLeases is ErrClosed", "MaxLeasesAreGranted"},
	{"Close leaves a wait for its turn among MaxLeases waiting", "MaxLeasesAreGranted"},
	{"broken lease counts among MaxLeases", "MaxLeasesAreGranted"},
}

// narrowLossMutants are bugs of stores that claim to notify a holder of the removal of its lease.
var narrowLossMutants = []mutant{
	{"removal after a cut is reported to the next holder of its client", "ReconnectedHolderIsNotified"},
	{"removal of a reader while disconnected is reported by a renewal alone", "ReconnectedHolderIsNotified"},
	{"removal after a second cut is reported by a renewal alone", "ReconnectedHolderIsNotified"},
	{"removal while disconnected is not reported if another has the key since", "ReconnectedHolderIsNotified"},
	{"OnLost is not called for a removal after a cut", "ReconnectedHolderIsNotified"},
	{removalBacklog, "ReconnectedHolderIsNotified"},
	{processRemoval, "KilledHolderFreesKey"},
}

const (
	removalBacklog = "removal while disconnected is not reported after 1000 other grants"
	processRemoval = "removal of a lease of another process is reported by a renewal alone"
)

// A narrow is what a client with a bug remembers for narrow situations.
type narrow struct {
	inBatch  sync.Map // owners whose leases a batch is renewing
	tokens   sync.Map // token of the first arrival of each waiting owner
	outlived sync.Map // owners whose wait has outlived a restart
	leftKey  sync.Map // the key whose waiters have left at Close; a single entry
	awaited  sync.Map // the key whose waiters are notified after a cut; a single entry
	seen     sync.Map // results of Inspect, by key
	seenCuts sync.Map // cuts at the time of the result, by key
	renewing sync.Map // keys of readers that are being renewed
}

// silence makes waiters find out by a timer that they have their turn, as a bug.
func silence(queue []*place, is func(p *place) bool) {
	for _, p := range queue {
		if is(p) {
			p.silenced = true
		}
	}
}

// leavesNarrowly applies the bugs of a waiter of client that leaves the queue of e.
func (s *server) leavesNarrowly(e *entry, client *client) {
	e.leftNow = true
	ofClient := func(p *place) bool { return p.client == client }
	switch {
	case s.is("waiter that gives up silences its client's others for the key"):
		silence(e.queue, ofClient)
	case s.is("waiter that gives up silences its client's others for other keys"):
		for _, other := range s.keys {
			if other != e {
				silence(other.queue, ofClient)
			}
		}
	}
}

// lateNarrowly returns how late an expired lease of e ends, as a bug.
func (s *server) lateNarrowly(e *entry) time.Duration {
	if len(e.queue) > 0 && e.client == e.queue[0].client &&
		s.is("expiry wakes a waiter of the holder's client 3 seconds late") {
		return 3 * time.Second
	}
	if len(e.queue) > 0 && e.queue[0].Shared && s.is(readersLate) {
		return 3 * time.Second
	}
	return 0
}

// outlastsNarrowly reports whether e's lease outlives its TTL by a second, as a bug.
func (s *server) outlastsNarrowly(e *entry, now time.Time) bool {
	return e.leftNow && len(e.queue) == 0 && s.is("lease that was waited for in vain ends a second late") &&
		now.Before(e.expires.Add(900*time.Millisecond))
}

// noTimer reports whether armLocked sets no timer, as a bug.
func (s *server) noTimer(e *entry) bool {
	return s.is(endsAtRequest) || len(e.queue) == 1 && time.Until(e.expires) < 2*time.Millisecond &&
		time.Since(e.queue[0].since) < 100*time.Microsecond && s.is("waiter that comes within 2 ms of the expiry is parked")
}

// staleNarrowly applies the bugs of a request of owner, which does not hold the key.
func (s *server) staleNarrowly(e *entry, owner, request string) {
	if len(e.queue) == 0 || e.owner == "" {
		return
	}
	switch {
	case request == "release" && e.gaveUp == owner && s.is("release sent again drops who waits first"),
		request == "release" && e.last == owner && s.is("late release after an expiry drops who waits first"),
		request == "renewal" && e.last == owner && s.is("late renewal after an expiry drops who waits first"):
		e.queue = e.queue[1:]
	}
}

// cutRenewalNarrowly applies the bugs of a renewal whose connection broke.
func (c *client) cutRenewalNarrowly(l *kit.Life, err error) {
	if !errors.Is(err, errReset) || !c.is("renewal whose connection broke drops who waits first") {
		return
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entryLocked(s.name(l.Key())); len(e.queue) > 0 {
		e.queue = e.queue[1:]
	}
}

// cutAttemptNarrowly applies the bugs of an attempt whose connection broke.
func (c *client) cutAttemptNarrowly(r backend.Request, err error) {
	if !errors.Is(err, errReset) || !c.is("clean-up of an attempt whose connection broke ends any lease of its client") {
		return
	}
	go func() {
		for range 5 {
			time.Sleep(20 * time.Millisecond) // sleeps: the clean-up is repeated
			_ = c.do(context.Background(), func() {
				s := c.server
				s.mu.Lock()
				defer s.mu.Unlock()
				if e := s.entryLocked(s.name(r.Key)); e.owner != "" && e.client == c {
					s.endLocked(s.name(r.Key), e)
				}
			})
		}
	}()
}

// abandonsLate cleans up after an attempt without a reply, but not if the client is closed soon, as a bug. It reports
// whether it has the bug.
func (c *client) abandonsLate(r backend.Request) bool {
	if !c.is("Close drops the clean-up of attempts without an answer") {
		return false
	}
	go func() {
		const soon = 20 * time.Millisecond
		for {
			select {
			case <-time.After(soon):
			case <-c.done:
				return
			}
			if c.do(context.Background(), func() {}) == nil {
				c.leases.Abandon(r, r.TTL)
				return
			}
		}
	}()
	return true
}

// hangsUpEarly applies the bug of a Close that cuts off releases.
func (c *client) hangsUpEarly() {
	if c.wire != nil && c.is("Close ends a Release under way") {
		c.wire.set(func() { c.wire.refuse = true; c.wire.breakLocked() })
	}
}

// closesNarrowly reports whether a waiter stays in the queue at Close, as a bug.
func (c *client) closesNarrowly(r backend.Request) bool {
	if !c.is("Close removes waiters from the queue of one key alone") {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first, loaded := c.narrow.leftKey.LoadOrStore(true, r.Key)
	return loaded && first != r.Key
}

// losesNarrowly reports whether the bugs of reconnectLossMutants in narrow situations keep a removal from being
// reported. connected and cuts describe the holder's client at the removal.
func (s *server) losesNarrowly(c *client, key, owner string, shared, connected bool) bool {
	cuts := c.contact.cuts.Load()
	switch {
	case s.is("removal of a reader while disconnected is reported by a renewal alone"):
		return shared && !connected
	case s.is("removal after a second cut is reported by a renewal alone"):
		return cuts > 1
	case s.is("removal while disconnected is not reported if another has the key since"):
		if connected {
			return false
		}
		c.comesBack()
		h := s.inspect(key)
		return h.Held() && h.Owner != owner
	case s.is(processRemoval):
		return c.events.remote
	case s.is(removalBacklog) && !connected:
		const backlog = 1000
		before := s.grantsSoFar()
		c.comesBack()
		return s.grantsSoFar()-before > backlog
	}
	return false
}

// comesBack waits until c may connect again.
func (c *client) comesBack() {
	for {
		if _, _, connected := c.wire.outOfContact(); connected || c.wire.isDead() {
			return
		}
		c.wire.mu.Lock()
		refuse := c.wire.refuse
		c.wire.mu.Unlock()
		if !refuse {
			return
		}
		time.Sleep(time.Millisecond) // sleeps: until the client may connect
	}
}

func (s *server) grantsSoFar() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants
}

// hearsNarrowly applies the bug that a notification of the removal of owner's lease ends the client's other leases of
// the key. The caller holds c.mu.
func (c *client) hearsNarrowly(owner string) {
	if !c.wasCut() || !c.is("removal after a cut is reported to the next holder of its client") {
		return
	}
	i := slices.IndexFunc(c.lives, func(l *kit.Life) bool { return l.Owner() == owner })
	if i < 0 {
		return
	}
	key := c.lives[i].Key()
	time.AfterFunc(30*time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range c.lives {
			if l.Key() == key {
				l.Lose()
			}
		}
	})
}

// arrivesNarrowly notes the first arrival of a waiter, and applies the bugs of one that queues again.
func (s *server) arrivesNarrowly(key string, e *entry, p *place) {
	c := p.client
	switch {
	case s.is("waiter that queues again keeps the token of its first arrival") && !p.Shared:
		token, again := c.narrow.tokens.Load(p.Owner)
		if !again {
			token = s.nextToken(key, c)
			c.narrow.tokens.Store(p.Owner, token)
		}
		p.token = token.(uint64)
	case s.is("client that was cut is notified for one key alone"):
		c.narrow.awaited.LoadOrStore(true, p.Key)
	}
}

// newsNarrowlyLate delays the notification of a waiter's turn, as a bug.
func (c *client) newsNarrowlyLate(p *place) {
	first, _ := c.narrow.awaited.Load(true)
	switch {
	case c.contact.cuts.Load() > 1 && c.is("client that was cut twice is woken by a timer"),
		c.wasCut() && first != p.Key && c.is("client that was cut is notified for one key alone"):
		time.Sleep(rand.N(time.Second)) // sleeps: until the timer fires
	}
}

// looksNarrowly delays a waiter at its turn, as a bug.
func (c *client) looksNarrowly(p *place) {
	c.server.mu.Lock()
	silenced, restarts := p.silenced, c.server.restarts
	c.server.mu.Unlock()
	if silenced || c.deaf.Load() || restarts > 0 && c.is("waiters are woken by a timer after a restart") {
		time.Sleep(rand.N(time.Second)) // sleeps: until the timer fires
	}
}

// restartsNarrowly applies the bugs of a restart to the lease of e, which others have waited for if waited is set.
func (s *server) restartsNarrowly(e *entry, waited bool) {
	now := time.Now()
	switch {
	case e.owner == "":
	case waited && s.is("restart begins leases anew that others wait for"):
		e.expires = now.Add(e.ttl)
	case s.is("second restart drops leases that were not renewed since the first"):
		if e.beforeRestart && e.renewed.Before(s.lastRestart) {
			e.owner = ""
		}
		e.beforeRestart = true
	}
}

// errTired is the error of a waiter whose patience has ended.
var errTired = fmt.Errorf("%w: out of patience", backend.ErrUnavailable)

// breaksInTwo is Break in two requests, as a bug: the first reads the holder, and the second ends whoever holds the key.
func (c *client) breaksInTwo(ctx context.Context, key, owner string) (done bool, err error) {
	var h backend.Holder
	if err := c.do(ctx, func() { h = c.server.inspect(key) }); err != nil {
		return false, err
	}
	if h.Owner != owner && h.Shared == 0 {
		return false, nil
	}
	err = c.do(ctx, func() {
		c.server.mu.Lock()
		found := c.server.entryLocked(c.server.name(key)).owner
		c.server.mu.Unlock()
		if h.Shared > 0 {
			found = owner
		}
		if found != "" {
			done = c.server.breakLease(key, found)
		}
	})
	return done, err
}

// inspectsNarrowly returns the holder that a client remembers from before a cut, as a bug.
func (c *client) inspectsNarrowly(key string, h backend.Holder) backend.Holder {
	if c.wire == nil || !c.is("first Inspect of a key after a cut returns what was seen before") {
		return h
	}
	cuts := c.contact.cuts.Load()
	before, ok := c.narrow.seen.Swap(key, h)
	at, _ := c.narrow.seenCuts.Swap(key, cuts)
	if ok && at != cuts {
		return before.(backend.Holder)
	}
	return h
}

// isAsked reports whether owner, of client c, queues again because its connection broke.
func (s *server) isAsked(c *client, owner string) bool {
	_, again := c.contact.asked.Load(owner)
	return again
}
