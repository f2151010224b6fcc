package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	closeForgets   = "token is forgotten when the lease of a closed client expires"
	closeFrees     = "Close releases renewed leases"
	closeTwins     = "Close ends the leases of clients that were opened at the same moment"
	closeSilences  = "Close silences those who wait beside its client"
	waitEndsWith   = "lease that was waited for ends at the deadline of its wait's context"
	cancelShuts    = "attempt that is cancelled keeps its own client out of the key"
	cleansUpAll    = "clean-up of a cancelled attempt is repeated for whoever holds the key"
	endedIsHeld    = "Acquire with an ended context matches ErrHeld"
	renewFromLast  = "each renewal after the first counts from the one before"
	allLeftPolls   = "waiter that comes when its client's others have given up is woken by a timer"
	acrossPolls    = "release of a lease that was waited for wakes another client by a timer"
	expiredPolls   = "waiter for a key whose last lease expired looks once a second"
	processPolls   = "waiter of another process is woken by a timer"
	processWakes   = "release by another process wakes the next waiter by a timer"
	restartBatch   = "restart puts leases renewed in a batch back to their first TTL"
	restartExpired = "restart begins expired leases anew"
	brokenProlongs = "late renewal of a broken lease prolongs the next one"
	parks130       = "waiter number 130 is parked"
	tokenForTTL    = "token is forgotten when the TTL of a released lease is over"
	keyCharacters  = "length of keys is counted in characters"
	ownerCharacter = "length of owners is counted in characters"
	waiterProlongs = "waiter that comes gives the holder its whole TTL again"
	evictTimer     = "timer of an evicted lease ends the next one"
	gapWaiter      = "waiter that comes as the key is released passes those who wait"
	reconnectAnew  = "client that connects again begins its leases anew"
	reconnectTakes = "client that connects again takes back its expired leases"
	batchNext      = "batch with a released lease renews the next one of its key and client"
	attemptKept    = "attempt whose deadline passes is not cleaned up"
	grantKept      = "grant that meets the deadline of its wait keeps the key"
	leasesForgot   = "leases are forgotten with the last client"
	brokenForgets  = "tokens of broken leases restart with the store"
	closeReverses  = "Close of a client turns the queues round in which it waits"
	ownSilences    = "release of a client's only lease silences its waiters"
)

// eventMutants are bugs that need an event before: a wait that was given up, an expiry, a cut, a renewal in a batch, or
// the end of another client.
var eventMutants = []mutant{
	{closeKeepsWaited, "CloseEndsLeases"},
	{closeKeepsRenewed, "CloseEndsLeases"},
	{"Close releases leases that were waited for", "CloseEndsLeases"},
	{closeFrees, "CloseEndsLeases"},
	{closeForgets, "CloseEndsLeases"},
	{closeTwins, "CloseSparesOtherClients"},
	{closeSilences, "PushIsPrompt"},
	{waitEndsWith, "CancelledAfterGrant"},
	{renewEndsWith, "CancelledAfterGrant"},
	{cancelShuts, "CancelRacesAttempt"},
	{cleansUpAll, "CancelRacesAttempt"},
	{endedIsHeld, "CancelledBefore"},
	{renewFromLast, "MinTTLIsKept"},
	{allLeftPolls, "PushIsPrompt"},
	{acrossPolls, "PushIsPrompt"},
	{expiredPolls, "PushIsPrompt"},
	{endedPolls, "PushIsPrompt"},
	{processPolls, "PushIsPrompt"},
	{processWakes, "PushIsPrompt"},
	{releasesTurns, "ReleaseTwice"},
	{restartBatch, "RestartEndsDeadLeases"},
	{restartExpired, "RestartEndsDeadLeases"},
	{brokenProlongs, "BreakEndsOneLease"},
	{parks130, "ManyWaitersDrain"},
	{tokenForTTL, "AgedThingsStand"},
	{keyCharacters, "BadInputIsRefused"},
	{ownerCharacter, "BadInputIsRefused"},
	{waiterProlongs, "RefusedAttemptsProlongNothing"},
	{evictTimer, "EvictedKeyWakesWaiter"},
	{gapWaiter, "TryDisturbsNoWaiter"},
	{reconnectAnew, "CutClientRecovers"},
	{reconnectTakes, "DisconnectedHolderKeepsLease"},
	{batchNext, "ReleasedLeaseSparesNewHolder"},
	{attemptKept, "CancelRacesAttempt"},
	{grantKept, "CancelRacesGrant"},
	{cancelLoses, "CancelledUnderWay"},
	{leasesForgot, "TokensOutliveClients"},
	{brokenForgets, "TokensSurviveRestart"},
	{closeReverses, "CloseEndsWaiting"},
	{ownSilences, "PushIsPrompt"},
}

// A happened is what has happened to a key, for eventMutants.
type happened struct {
	allLeft   *client   // the last client whose waiters have all given up
	expired   bool      // a lease has expired
	renewedAt time.Time // of the holder's lease
	gap, over bool      // the key is released, and granted to nobody yet; this ends now
	arrivals  int       // how many waiters have come
	number    int       // of the last grant, among those of all keys
	due       time.Time // when the lease would end if it were not renewed
}

// clientEvents is what has happened to a client, for eventMutants.
type clientEvents struct {
	opened time.Time
	remote bool         // it is the client of another process
	shut   sync.Map     // keys that it is kept out of
	queued sync.Map     // owners that had to wait
	cuts   atomic.Int64 // cuts before its last request
}

// closesBeside applies the bugs of a Close of c that depend on its leases or touch others.
func (s *server) closesBeside(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	if !s.is(closeSilences, closeReverses, closeFrees, closeTwins, leasesForgot) {
		return
	}
	for key, e := range s.keys {
		twin := e.client != nil && e.client != c && e.client.events.opened.Equal(c.events.opened)
		waits := slices.ContainsFunc(e.queue, func(p *place) bool { return p.client == c })
		switch {
		case waits && s.is(closeSilences):
			silence(e.queue, func(p *place) bool { return p.client != c })
		case waits && s.is(closeReverses):
			slices.Reverse(e.queue)
		case e.owner == "":
		case e.client == c && !e.renewed.IsZero() && s.is(closeFrees), twin && s.is(closeTwins),
			s.closed == s.clients && s.is(leasesForgot):
			s.endLocked(key, e)
		}
	}
}

// cutByWait returns r with a TTL that ends with the context of its wait, if the key is held, as a bug.
func (c *client) cutByWait(ctx context.Context, r backend.Request) backend.Request {
	if end, ok := ctx.Deadline(); ok && r.Wait && c.is(waitEndsWith) && c.server.inspect(r.Key).Held() {
		r.TTL = max(shortest, min(r.TTL, time.Until(end)))
	}
	return r
}

// shutOut returns the error of an attempt at a key that its client is kept out of, as a bug.
func (c *client) shutOut(r backend.Request) error {
	if _, shut := c.events.shut.Load(r.Key); shut && !r.Wait {
		return &backend.HeldError{}
	}
	return nil
}

// shuts keeps the client out of the key of a cancelled attempt, as a bug.
func (c *client) shuts(ctx context.Context, r backend.Request, err error) {
	if err != nil && ctx.Err() != nil && !r.Wait && c.is(cancelShuts) {
		c.events.shut.Store(r.Key, true)
	}
}

// keepsTimedOut reports whether an attempt of a client without a wire is not cleaned up, because the deadline of its
// context has passed, as a bug.
func (c *client) keepsTimedOut(ctx context.Context) bool {
	return c.wire == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && c.is(attemptKept)
}

// cleansUpAny ends whichever lease the key of r has, again and again for a while, as a bug.
func (c *client) cleansUpAny(r backend.Request) {
	if !c.is(cleansUpAll) {
		return
	}
	go func() {
		for range 5 {
			time.Sleep(150 * time.Millisecond) // sleeps: before the clean-up is repeated
			c.server.endsAny(r.Key)
		}
	}()
}

// endsAny ends the lease of key, whoever holds it.
func (s *server) endsAny(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.name(key)
	if e := s.entryLocked(key); e.owner != "" {
		s.endLocked(key, e)
	}
}

// endedBefore returns the error of an Acquire whose context has ended with err.
func (c *client) endedBefore(err error) error {
	if c.is(endedIsHeld) {
		return fmt.Errorf("%w: %w", backend.ErrHeld, err)
	}
	return err
}

// tooLong reports whether a name of r that is too long is taken because it has few characters, as a bug.
func (c *client) tooLong(r backend.Request) bool {
	few := func(name string, most int) bool { return len(name) > most && utf8.RuneCountInString(name) <= most }
	return c.is(keyCharacters) && few(r.Key, backend.MaxKeyLen) ||
		c.is(ownerCharacter) && few(r.Owner, backend.MaxOwnerLen)
}

// countsFrom returns the time from which a renewal at now counts.
func (s *server) countsFrom(e *entry, now time.Time) time.Time {
	last := e.happened.renewedAt
	e.happened.renewedAt = now
	if s.is(renewFromLast) && !last.IsZero() {
		return last
	}
	return now
}

// allLeave records that a waiter of client has given up.
func (s *server) allLeave(e *entry, client *client) {
	if !slices.ContainsFunc(e.queue, func(p *place) bool { return p.client == client }) {
		e.happened.allLeft = client
	}
}

// arrivesAfterEvents applies the bugs of a waiter that comes. It reports whether the waiter is parked.
func (s *server) arrivesAfterEvents(e *entry, p *place) (parked bool) {
	e.happened.arrivals++
	if e.happened.allLeft == p.client && s.is(allLeftPolls) {
		p.silenced = true
	}
	number := len(e.queue) + 1
	if e.parked || !(number == 130 && s.is(parks130)) && !(number == 260 && s.is(parks260)) {
		return false
	}
	e.parked = true
	return true
}

// releasesUnheard silences waiters at the release of the lease of e, as a bug.
func (s *server) releasesUnheard(e *entry) {
	if s.is(ownSilences) && !s.holdsMore(e) {
		for _, other := range s.keys {
			silence(other.queue, func(p *place) bool { return p.client == e.client })
		}
	}
	if len(e.queue) == 0 || e.client == nil {
		return
	}
	next := e.queue[0]
	if e.waited && next.client != e.client && s.is(acrossPolls) || e.client.events.remote && s.is(processWakes) {
		next.silenced = true
	}
}

// holdsMore reports whether the client of e's lease holds another key.
func (s *server) holdsMore(e *entry) bool {
	for _, other := range s.keys {
		if other != e && other.owner != "" && other.client == e.client && time.Now().Before(other.expires) {
			return true
		}
	}
	return false
}

// silencesFirst silences the first waiter for key.
func (s *server) silencesFirst(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entryLocked(s.name(key)); len(e.queue) > 0 {
		e.queue[0].silenced = true
	}
}

// expiredWithClient applies the bugs of an expiry.
func (s *server) expiredWithClient(key string, e *entry) {
	if e.happened.expired = true; e.client != nil && e.client.leases.Closed() {
		s.forgetsToken(closeForgets, key)
	}
}

// forgetsReleasedToken forgets the token of key, as a bug, when the TTL of its last lease, which was released, is over.
func (s *server) forgetsReleasedToken(key string) {
	e := s.keys[key]
	if e != nil && e.owner == "" && !e.expired && !e.released.IsZero() && time.Now().After(e.expires) {
		s.forgetsToken(tokenForTTL, key)
	}
}

// restartsAfter applies the bugs of a restart to the lease of e, or to its last one.
func (s *server) restartsAfter(key string, e *entry) {
	now := time.Now()
	switch {
	case e.owner == "" && e.wasBroken && s.is(brokenForgets):
		delete(s.tokens, key)
	case s.is(restartBatch) && e.owner != "" && e.inBatch:
		e.expires = e.granted.Add(e.ttl)
	case !s.is(restartExpired):
	case e.owner != "" && !now.Before(e.expires):
		e.expires = now.Add(e.ttl)
	case e.owner == "" && e.expired:
		e.owner, e.client, e.expires = e.last, e.lastOf, now.Add(e.ttl)
	}
}

// prolongsNext makes a late renewal to ttl by the owner of a broken lease count for the present one, as a bug.
func (s *server) prolongsNext(e *entry, owner string, ttl time.Duration) {
	if e.owner != "" && e.brokenOwner == owner && s.is(brokenProlongs) {
		e.expires = time.Now().Add(ttl)
	}
}

// evictsTimer leaves the timer of an evicted lease running, as a bug.
func (s *server) evictsTimer(key string, e *entry) {
	if s.is(evictTimer) {
		time.AfterFunc(time.Until(e.expires), func() { s.endsAny(key) })
	}
}

// pausesAtEnd leaves a released key free for a moment although others wait, as a bug. It reports whether it does.
func (s *server) pausesAtEnd(key string, e *entry) bool {
	if !s.is(gapWaiter) || e.happened.over {
		return false
	}
	if e.happened.gap {
		return true
	}
	e.happened.gap = true
	time.AfterFunc(500*time.Microsecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.happened.gap = false
		if e.owner == "" {
			e.happened.over = true
			s.endLocked(key, e)
			e.happened.over = false
		}
	})
	return true
}

// refusesInGap reports whether an attempt is refused because others wait for a key that is free for a moment.
func (s *server) refusesInGap(e *entry, r backend.Request) bool {
	return e.happened.gap && e.owner == "" && len(e.queue) > 0 && !r.Wait
}

// beginsAnew makes leases of a client that connects again begin anew, as a bug.
func (c *client) beginsAnew() {
	if !c.is(reconnectAnew, reconnectTakes) {
		return
	}
	if cuts := c.contact.cuts.Load(); c.events.cuts.Swap(cuts) == cuts {
		return
	}
	s, now := c.server, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		switch over := !now.Before(e.expires); {
		case e.owner != "" && e.client == c && over == c.is(reconnectTakes):
			e.expires = now.Add(e.lastTTL)
		case e.owner == "" && e.expired && e.lastOf == c && c.is(reconnectTakes):
			e.owner, e.client, e.expires = e.last, c, now.Add(e.lastTTL)
		}
	}
}

// renewsNext makes a batch renew the present leases of keys whose leases in the batch were released, as a bug.
func (c *client) renewsNext(renewals []backend.Renewal) {
	if !c.is(batchNext) {
		return
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range renewals {
		l, ok := r.Lease.(*kit.Life)
		if !ok {
			continue
		}
		if e := s.entryLocked(s.name(l.Key())); e.owner != "" && e.client == c && e.gaveUp == l.Owner() {
			e.expires = time.Now().Add(r.TTL)
		}
	}
}
