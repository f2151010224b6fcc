package conformance_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	markExpired = "shared attempt passes a waiting writer once a reader before it has expired"
	markRenewed = "shared attempt passes a waiting writer once a reader before it was renewed"
	markClosed  = "shared attempt passes a waiting writer once the client of another one was closed"
	markHeld    = "shared attempt passes a writer that came to wait while a writer held the key"
	markGone    = "shared attempt passes a waiting writer once the client of a reader before it was closed"

	shutExpired = "shared attempts are refused once a writer that had waited has expired"
	shutBroken  = "shared attempts are refused once a writer that had waited was broken"
	shutAtOnce  = "shared attempts are refused once a writer that might wait was granted the key at once"
	shutCut     = "shared attempts are refused once a waiting writer has queued again after a cut"
	shutDead    = "new readers are refused beside readers of which one has expired"
	shutResumed = "new readers are refused beside a reader that was resumed"
	shutOver    = "readers exclude each other after a writer that has expired"

	besideResumed = "reader enters beside a writer that was resumed"
	besideSilent  = "shared attempt passes a writer that has its turn and cannot be reached"
	besideBroken  = "reader enters beside a writer that came after the Break of a reader"

	renewedBelow = "renewal of a reader that would not end last does nothing"
	breaksDead   = "break of a reader that has expired beside others succeeds"
	wholeWriter  = "waiting reader looks again after the whole TTL of the writer before it"
	strandedEnds = "release of a reader by a dead connection ends the writer after it"
	giveUp       = "renewal of a reader is ErrLost when a writer has waited for 10 seconds"

	listsDead      = "list leaves out keys of readers of which one has expired"
	notifiesWaited = "removal of a reader that had waited is reported by a renewal alone"
	refusedLate    = "attempt of a reader behind a waiting writer is refused after 300 ms"
	restartTokens  = "tokens of keys that readers have left restart with the store"

	enter128 = "at most 128 waiting readers enter at once"
	most1000 = "at most 1000 readers at once"

	unsharedHeld = "store without shared leases calls a key that is held busy for a reader"
	unsharedSent = "store without shared leases sends a reader's request"
	invalidSent  = "bad request is sent to the store"
	readerAsks   = "waiting reader asks every millisecond"
	readerStays  = "reader asks after its lease without pause"
	keepsRenewed = "store keeps a record of each renewal of a reader"
)

// readerEventMutants are bugs of readers and writers that show only after certain events, which the checks of shared
// leases must find.
var readerEventMutants = []mutant{
	{markExpired, "LastReaderWakesWriter"},
	{markRenewed, "LastReaderWakesWriter"},
	{markClosed, "LeavingWriterFreesReaders"},
	{markHeld, "ReadersIgnoreLaterWriter"},
	{markGone, "CloseEndsOwnReaders"},
	{shutExpired, "LastReaderWakesWriter"},
	{shutBroken, "LastReaderWakesWriter"},
	{shutAtOnce, "LastReaderWakesWriter"},
	{shutCut, "CutSharedWaitersGetTurn"},
	{shutDead, "DeadReaderEndsByOwnTTL"},
	{shutOver, "StaleReaderSparesWriter"},
	{besideBroken, "BreakEndsOneReader"},
	{renewedBelow, "ReaderLosesAlone"},
	{breaksDead, "DeadReaderEndsByOwnTTL"},
	{wholeWriter, "WriterGetsKeyOfDeadReaders"},
	{listsDead, "ListReturnsSharedKeysOnce"},
	{enter128, "ManyReaders"},
	{most1000, "ManyReaders"},
}

// resumedEventMutants are such bugs that the checks of Resume must find.
var resumedEventMutants = []mutant{
	{shutResumed, "ResumeOfReaders"},
	{besideResumed, "ResumeContinuesLease"},
}

// otherEventMutants are such bugs that the checks of both modes must find.
var otherEventMutants = []mutant{
	{besideSilent, "ReservedKeyIsNotFree"},
	{giveUp, "AgedThingsStand"},
	{notifiesWaited, "RemovedHolderIsNotified"},
	{strandedEnds, "StrandedRequestChangesNothing"},
	{refusedLate, "AttemptDoesNotWait"},
	{restartTokens, "TokensSurviveRestart"},
	{unsharedHeld, "BadInputIsRefused"},
	{unsharedSent, "BadInputIsRefused"},
	{invalidSent, "BadInputIsRefused"},
	{readerAsks, "WaitingPollsSeldom"},
	{readerStays, "WaitingPollsSeldom"},
	{keepsRenewed, "StoreForgetsEndedLeases"},
}

// marks is what the server remembers of a key for these bugs.
type marks struct {
	lifted bool // waiting writers keep no shared attempt out
	shut   bool // shared attempts are refused
	broken bool // the last reader was broken while nobody waited
	beside bool // readers enter beside the writer
	over   bool // the last exclusive lease has expired
}

// lifts makes shared attempts pass the writers that wait for the key of e, with the given bug.
func (s *server) lifts(e *entry, bug string) { e.marks.lifted = e.marks.lifted || s.is(bug) }

// shuts makes shared attempts at the key of e fail, with the given bug.
func (s *server) shuts(e *entry, bug string) { e.marks.shut = e.marks.shut || s.is(bug) }

// refusesAfterEvents reports whether r, which may share the key of e, is refused or parked, as a bug.
func (s *server) refusesAfterEvents(e *entry, r backend.Request) bool {
	switch {
	case e.marks.shut:
		return !r.Wait
	case len(e.readers) == 0:
		return false
	case s.is(shutDead):
		return e.measured.dead > 0
	case s.is(shutResumed):
		return slices.ContainsFunc(e.readers, func(other *reader) bool { return other.resumedBy != nil })
	case s.is(shutOver):
		return e.marks.over
	}
	return len(e.readers) >= 1000 && s.is(most1000)
}

// entersBeside reports whether readers enter beside the writer of e, as a bug.
func (s *server) entersBeside(e *entry) bool {
	switch {
	case s.is(besideResumed):
		return e.resumedBy != nil
	case s.is(besideSilent):
		return e.waited && e.renewed.IsZero() && e.client.isSilent()
	}
	return e.marks.beside
}

// marksGrant records an exclusive grant.
func (s *server) marksGrant(e *entry) {
	e.marks.beside, e.marks.broken, e.marks.over = e.marks.broken && s.is(besideBroken), false, false
}

// marksExpiry records that the exclusive lease of e has expired.
func (s *server) marksExpiry(e *entry) {
	e.marks.over = true
	if e.waited {
		s.shuts(e, shutExpired)
	}
}

// closesBehind records that the client of a waiting writer was closed.
func (s *server) closesBehind(r backend.Request) {
	if r.Shared || !s.is(markClosed) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lifts(s.entryLocked(s.name(r.Key)), markClosed)
}

// closesReading records that the client c of readers was closed.
func (s *server) closesReading(c *client) {
	if !s.is(markGone) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		if slices.ContainsFunc(e.readers, func(r *reader) bool { return r.client == c }) {
			s.lifts(e, markGone)
		}
	}
}

// endsStranded reports whether the release of owner, which came by a dead connection, ends the writer of e, as a bug.
func (s *server) endsStranded(key string, e *entry, owner string) bool {
	return e.owner != "" && s.is(strandedEnds) && slices.ContainsFunc(s.ended, func(r endedReader) bool {
		return r.key == key && r.owner == owner && r.client.contact.late.Load()
	})
}

// lateWhole returns how much later than the end of its holder a waiting reader looks again, as a bug.
func (s *server) lateWhole(e *entry) time.Duration {
	if len(e.queue) == 0 || !e.queue[0].Shared || !s.is(wholeWriter) {
		return 0
	}
	began := e.granted
	if e.renewed.After(began) {
		began = e.renewed
	}
	return time.Since(began)
}

// hasExpired reports whether owner had a shared lease of key, which has expired.
func (s *server) hasExpired(key, owner string) bool {
	return slices.ContainsFunc(s.ended, func(r endedReader) bool { return r.key == key && r.owner == owner })
}

// refusesLate keeps a refused reader waiting for a while, as a bug.
func (s *server) refusesLate(e *entry) {
	if len(e.readers) == 0 || !s.is(refusedLate) {
		return
	}
	s.mu.Unlock()
	time.Sleep(300 * time.Millisecond) // sleeps: the attempt is refused late
	s.mu.Lock()
}

// refusedOddly returns the error of r, which is not valid, for bugs that ask the server.
func (c *client) refusedOddly(ctx context.Context, r backend.Request, err error) error {
	sent := errors.Is(err, backend.ErrUnsupported) && c.is(unsharedSent) || errors.Is(err, backend.ErrInvalid) &&
		c.is(invalidSent)
	if sent {
		if err := c.do(ctx, func() {}); err != nil {
			return err
		}
	}
	if errors.Is(err, backend.ErrUnsupported) && c.is(unsharedHeld) && c.server.holderOf(r.Key).Held() {
		return backend.ErrHeld
	}
	return err
}

// readerStaysBusy reports whether the holder of life asks after its lease without pause, as a bug.
func (c *client) readerStaysBusy(life *kit.Life) bool { return life.Shared() && c.is(readerStays) }
