package conformance_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	writerMarkStays   = "reader enters beside a writer that was renewed past its first TTL"
	readerMarkStays   = "writer enters beside readers that were renewed past their first TTL"
	intentOwnTTL      = "waiting writer keeps new readers out for its own TTL"
	intentOfOne       = "waiting writer that leaves lets new readers pass the others that wait"
	intentStays       = "shared attempts are refused for a TTL after the turn of a writer that waited"
	writerTurnAlong   = "turn of a writer takes the readers behind it along"
	readersTurnAlong  = "turn of readers takes the writer behind them along"
	expiryLetsOneIn   = "expiry of a writer lets in one of the readers that wait"
	breakLetsOneIn    = "break of a writer lets in one of the readers that wait"
	watchesNearest    = "end of the lease ahead of a writer at its arrival is its turn"
	staleEndsReaders  = "late release of an expired writer ends the readers after it"
	staleBesides      = "renewal of an expired writer revives it beside readers"
	renewalGivesWay   = "renewal of a reader is ErrLost while a writer waits"
	renewalFirstTTL   = "renewal of a reader is for the TTL of its grant"
	batchFirstMode    = "batch takes the mode of its first lease for all"
	batchLastTTL      = "batch renews the readers of a key for the TTL of the last"
	entryWritesBack   = "entry of a reader writes back the readers that it found"
	releaseWritesBack = "release of a reader writes back the readers that it found"
	writerLooks       = "writer looks for readers, then takes the key"
	readerLooks       = "reader looks for a writer, then adds itself"
	writerTokenEarly  = "waiting writer's token is from its arrival"
	leavingLetsAllIn  = "writer that leaves lets in all readers that wait, past the next writer"
	readersFirstAfter = "end of a writer lets in waiting readers before an earlier writer"
	waitNotHeld       = "wait of a reader behind a waiting writer that times out is not ErrHeld"
	waitersNoReaders  = "Inspect does not count waiting readers as waiters"
	countsDead        = "Inspect counts readers that have expired while others read"
	brokenUnnotified  = "broken reader is not notified while others read"
	purgeStops        = "removal of dead readers stops at the first live one"
	oneTimer          = "timer of the readers of a key is not set again after it has fired"
	timerOfReleased   = "timer of a released reader ends the writer that holds the key by then"
	keepsWriterEnd    = "reader after a writer keeps the end of its lease if that is later"
	releaseLike       = "release of a reader takes % and _ in its owner for any characters"
	leavingEndsAll    = "clean-up of a cancelled waiting writer ends the readers"
	joinsPhase        = "new reader joins readers that had waited, past the writer behind them"
	readerPerClient   = "second reader of a client and key replaces the first"
	recheckIgnores    = "waiting reader looks again after 500 ms and ignores waiting writers"
	arrivalCuts       = "waiting writer cuts the leases of readers to its own TTL"
	cleanUpOfClient   = "clean-up of a cancelled waiting reader ends its client's readers of the key"
)

// ordinaryReaderMutants are bugs of shared leases that an author of a store makes without any contrivance.
var ordinaryReaderMutants = []mutant{
	{readerMarkStays, "SharedWaitOutlivesOwnTTL"},
	{intentOfOne, "TrySharedBehindWaitingWriter"},
	{intentStays, "SharedNoLostWakeUp"},
	{writerTurnAlong, "NoReaderPassesWaitingWriter"},
	{readersTurnAlong, "ReadersIgnoreLaterWriter"},
	{expiryLetsOneIn, "ReadersEnterTogether"},
	{watchesNearest, "SharedUnderContention"},
	{renewalGivesWay, "NoReaderPassesWaitingWriter"},
	{renewalFirstTTL, "LastReaderWakesWriter"},
	{batchFirstMode, "MixedBatchRenewsEach"},
	{entryWritesBack, "SharedUnderContention"},
	{releaseWritesBack, "SharedUnderContention"},
	{writerTokenEarly, "SharedUnderContention"},
	{leavingLetsAllIn, "LeavingWriterFreesReaders"},
	{readersFirstAfter, "ReadersIgnoreLaterWriter"},
	{waitersNoReaders, "WriterExcludesReaders"},
	{countsDead, "DeadReaderEndsByOwnTTL"},
	{brokenUnnotified, "RemovedHolderIsNotified"},
	{purgeStops, "LastReaderWakesWriter"},
	{oneTimer, "LastReaderWakesWriter"},
	{timerOfReleased, "LeasesAreAlike"},
	{keepsWriterEnd, "DeadReaderEndsByOwnTTL"},
	{releaseLike, "ReadersThatLookAlike"},
	{leavingEndsAll, "TrySharedBehindWaitingWriter"},
	{joinsPhase, "SharedPushIsPrompt"},
	{readerPerClient, "ReadersShareKey"},
	{recheckIgnores, "SharedPushIsPrompt"},
	{arrivalCuts, "SharedWaitOutlivesOwnTTL"},
	{cleanUpOfClient, "LeavingWriterFreesReaders"},
}

// measured is what the server remembers of a key for these bugs.
type measured struct {
	firstEnd  time.Time // of the first TTL of the writer
	unmarked  bool      // one of the waiting writers has left
	intent    time.Time // until when the mark of the last waiting writer stands
	one       bool      // one reader enters
	writerEnd time.Time // the end of the last exclusive lease
	dead      int       // readers that have expired beside others
	fired     bool      // the timer of the readers has fired
}

// servedLater serves other requests meanwhile.
func (s *server) servedLater() {
	s.mu.Unlock()
	time.Sleep(time.Millisecond) // sleeps: another request may be served meanwhile
	s.mu.Lock()
}

// entersOddly reports whether a reader enters, as a bug. An exclusive lease may hold the key.
func (s *server) entersOddly(e *entry) bool {
	now := time.Now()
	switch {
	case e.owner != "":
		return s.is(writerMarkStays) && !now.Before(e.measured.firstEnd) || s.entersBeside(e)
	case s.is(intentOwnTTL):
		return !slices.ContainsFunc(e.queue, func(p *place) bool { return !p.Shared && now.Before(p.since.Add(p.TTL)) })
	case s.is(intentOfOne):
		return e.measured.unmarked
	case s.is(joinsPhase):
		return len(e.readers) > 0 && e.readers[0].parked
	}
	return false
}

// intentRefuses reports whether r is refused because of the mark of a writer that has had its turn, as a bug.
func (s *server) intentRefuses(e *entry, r backend.Request) bool {
	return s.is(intentStays) && !r.Wait && e.owner == "" && time.Now().Before(e.measured.intent)
}

// writerEntersOddly reports whether all readers of e have been renewed past their first TTLs, as a bug.
func (s *server) writerEntersOddly(e *entry) bool {
	return s.is(readerMarkStays) && len(e.readers) > 0 && !slices.ContainsFunc(e.readers, func(r *reader) bool {
		return time.Now().Before(r.granted.Add(r.ttl))
	})
}

// arrives applies the bugs of the arrival of a waiter.
func (s *server) arrives(key string, e *entry, p *place, c *client) {
	switch {
	case len(e.queue) > 0:
		p.watch = e.queue[len(e.queue)-1].Owner
	case len(e.readers) > 0:
		p.watch = e.readers[len(e.readers)-1].owner
	}
	if !p.Shared {
		e.measured.unmarked, e.marks.lifted = false, e.owner != "" && s.is(markHeld)
		e.measured.intent = time.Now().Add(p.TTL)
	}
	switch {
	case !p.Shared && s.is(writerTokenEarly):
		p.token = s.nextToken(key, c)
	case !p.Shared && s.is(arrivalCuts):
		for _, r := range e.readers {
			if end := time.Now().Add(p.TTL); end.Before(r.expires) {
				s.extendReader(key, e, r, end)
			}
		}
	case p.Shared && s.is(recheckIgnores):
		s.rechecks(key, e, p)
	}
}

// rechecks grants a waiting reader the key after a while if no writer holds it.
func (s *server) rechecks(key string, e *entry, p *place) {
	time.AfterFunc(500*time.Millisecond, func() {
		s.gate.RLock()
		defer s.gate.RUnlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(e.queue, p)
		switch {
		case i < 0:
		case e.owner != "":
			s.rechecks(key, e, p)
		default:
			e.queue = slices.Delete(e.queue, i, i+1)
			p.turn <- s.enterLocked(key, e, p.Request, p.client, time.Now())
		}
	})
}

// grantedExclusive records the grant of r.
func (s *server) grantedExclusive(e *entry, r backend.Request, now time.Time) {
	e.measured.firstEnd = now.Add(r.TTL)
	if e.measured.intent.After(now) {
		e.measured.intent = now.Add(r.TTL)
	}
}

// endsHolder applies the bugs of the end of a lease.
func (s *server) endsHolder(e *entry) {
	if e.owner == "" {
		return
	}
	e.measured.writerEnd = e.expires
	if s.is(readersFirstAfter) {
		e.readersFirst()
	}
}

// takesAlongReaders lets in the readers at the head of the queue beside a writer, as a bug.
func (s *server) takesAlongReaders(key string, e *entry) {
	for s.is(writerTurnAlong) && len(e.queue) > 0 && e.queue[0].Shared {
		p := e.queue[0]
		e.queue = e.queue[1:]
		p.turn <- s.enterLocked(key, e, p.Request, p.client, time.Now())
	}
}

// takesAlongWriter grants the key to the writer at the head of the queue beside readers, as a bug.
func (s *server) takesAlongWriter(key string, e *entry) {
	if s.is(readersTurnAlong) && len(e.queue) > 0 && !e.queue[0].Shared && len(e.readers) > 0 {
		p := e.queue[0]
		e.queue = e.queue[1:]
		p.turn <- s.grantLocked(key, e, p.Request, p.client, time.Now())
	}
}

// isWatched reports whether the writer at the head of the queue of e waits for the end of r alone, as a bug.
func (s *server) isWatched(e *entry, r *reader) bool {
	return s.is(watchesNearest) && len(e.queue) > 0 && !e.queue[0].Shared && e.queue[0].watch == r.owner
}

// releasesLate ends the readers of e, as a bug, if owner was the writer before them.
func (s *server) releasesLate(key string, e *entry, owner string) {
	if s.is(staleEndsReaders) && e.owner == "" && e.last == owner {
		s.removeReaders(key, e)
	}
}

// givesWay reports whether the renewal of a reader of e is refused, as a bug.
func (s *server) givesWay(e *entry) bool {
	return s.is(renewalGivesWay, giveUp) && slices.ContainsFunc(e.queue, func(p *place) bool {
		return !p.Shared && (s.is(renewalGivesWay) || time.Since(p.since) > 10*time.Second)
	})
}

// enteredWith writes the readers back that a new one has found, and its own, as a bug. It returns false if r may not
// enter any more.
func (s *server) enteredWith(key string, e *entry, r backend.Request, c *client) bool {
	switch {
	case s.is(readerLooks):
		s.servedLater()
	case s.is(entryWritesBack):
		before := slices.Clone(e.readers)
		if s.servedLater(); !s.readerMayEnter(e, r, c) {
			return false
		}
		s.writesBack(key, e, before)
	}
	return true
}

// writesBack replaces the readers of e.
func (s *server) writesBack(key string, e *entry, readers []*reader) {
	for _, r := range e.readers {
		r.timer.Stop()
	}
	e.readers = readers
	for _, r := range readers {
		s.extendReader(key, e, r, r.expires)
	}
}

// releasesWith releases reader i of e by writing back the others that it has found, as a bug. It reports whether it
// did.
func (s *server) releasesWith(key string, e *entry, i int) bool {
	if !s.is(releaseWritesBack) {
		return false
	}
	r, others := e.readers[i], slices.Delete(slices.Clone(e.readers), i, i+1)
	if s.servedLater(); e.reader(r.owner) == nil {
		return true
	}
	s.writesBack(key, e, others)
	if len(others) == 0 && e.owner == "" {
		s.endLocked(key, e)
	}
	return true
}

// releasesLike ends the readers of e whose owners match owner as a pattern of SQL, as a bug.
func (s *server) releasesLike(key string, e *entry, owner string) {
	if !s.is(releaseLike) || !strings.ContainsAny(owner, "%_") {
		return
	}
	pattern := strings.NewReplacer("%", ".*", "_", ".").Replace(regexp.QuoteMeta(owner))
	like := regexp.MustCompile("(?s)^" + pattern + "$")
	for i := len(e.readers) - 1; i >= 0; i-- {
		if e.readers[i].owner != owner && like.MatchString(e.readers[i].owner) {
			s.removeReader(key, e, i)
		}
	}
}

// leavesTimer lets the timer of the released reader r run, as a bug.
func (s *server) leavesTimer(key string, e *entry, r *reader) {
	if !s.is(timerOfReleased) {
		return
	}
	time.AfterFunc(time.Until(r.expires), func() {
		s.gate.RLock()
		defer s.gate.RUnlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.owner != "" {
			s.endLocked(key, e)
		}
	})
}

// entersAlone applies the bugs of a new reader of c.
func (s *server) entersAlone(e *entry, r *reader, c *client) {
	if s.is(keepsWriterEnd) && r.expires.Before(e.measured.writerEnd) {
		r.expires = e.measured.writerEnd
	}
	if s.is(readerPerClient) {
		e.readers = slices.DeleteFunc(e.readers, func(other *reader) bool {
			if other.client == c {
				other.timer.Stop()
			}
			return other.client == c
		})
	}
}

// leavesAmong applies the bugs of a request of c that has left the queue of e.
func (s *server) leavesAmong(key string, e *entry, left backend.Request, c *client) {
	if !left.Shared {
		e.measured.unmarked, e.measured.intent = true, time.Time{}
	}
	switch {
	case !left.Shared && s.is(leavingEndsAll):
		s.removeReaders(key, e)
	case !left.Shared && e.owner == "" && s.is(leavingLetsAllIn):
		e.readersFirst()
	case left.Shared && s.is(cleanUpOfClient):
		for i := len(e.readers) - 1; i >= 0; i-- {
			if e.readers[i].client == c {
				s.removeReader(key, e, i)
			}
		}
	}
}

// inspectsAmong applies the bugs of Inspect to h.
func (s *server) inspectsAmong(key string, h backend.Holder) backend.Holder {
	if !s.is(waitersNoReaders, countsDead) || !h.Held() {
		return h
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(s.name(key))
	for _, p := range e.queue {
		if p.Shared && s.is(waitersNoReaders) {
			h.Waiters--
		}
	}
	if h.Shared > 0 && s.is(countsDead) {
		h.Shared += e.measured.dead
	}
	return h
}

// endOfSharedWait is endOfWait for r, whose place was p.
func (c *client) endOfSharedWait(ctx context.Context, r backend.Request, p *place) error {
	if r.Shared && p.beside && c.is(waitNotHeld) {
		return kit.ContextError(ctx, nil)
	}
	return c.endOfWait(ctx)
}
