package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	releaseStopsTimers = "release of a reader stops the timers of the others"
	breakStopsTimers   = "break of a reader stops the timers of the others"
	leavingStopsTimers = "waiting writer that leaves stops the timers of readers"
	shortensLate       = "shorter renewal of one of several readers sets no timer"
	releaseCutsNext    = "release of a reader gives the next reader its end"
	renewedReaderPolls = "release of a renewed reader wakes the next waiter by a timer"
	brokenWriterPolls  = "break of a writer wakes waiting readers by a timer"
	closeStopsReaders  = "Close stops the timers of readers that others wait for"

	timeoutTakesNext   = "waiting reader that times out takes the next in the queue along"
	timeoutParks       = "reader that waits is parked beside readers once a waiting writer has timed out"
	breakDropsThird    = "break of a reader drops who waits third"
	breakShutsOut      = "new readers are refused once one of the readers was broken"
	breakByPlace       = "break of a reader finds its place, then ends who has the place"
	breakFindsFew      = "break finds the first 128 readers of a key alone"
	breakFindsNoLong   = "break finds no reader of a key over 255 bytes"
	restartForgetsWait = "shared attempt passes a writer that has waited since before a restart"
	killLeavesPlace    = "one place of a killed process is removed from each queue"

	resumeRotates      = "resume of a reader sends who waits first to the end"
	resumeOfOtherKey   = "resume finds readers of other keys"
	resumeByPart       = "resume knows a reader by a part of its name"
	resumeBesideWriter = "resume revives an expired reader beside a writer"
	resumeReaderLooks  = "resume of a reader compares, then sets"
	resumeEndsFirst    = "resume ends the reader of the first client"
	closeEndsResumed   = "close of a client ends the readers that it has resumed"
	lateResumeRevives  = "late resume revives its reader"
	lostResumeCleans   = "resume of a reader that is not answered is cleaned up"

	batchHundred    = "batch renews 100 readers of a key at most"
	batchFirstTTL   = "batch renews the readers of a key for the first TTL"
	batchLongestTTL = "batch renews the readers of a key for the longest TTL"
	batchOneLoss    = "batch reports one lost reader of a key"
	batchWriters    = "reader gets the answer of the writer of its key in a batch"
	seventhRenewal  = "each seventh renewal of a reader does nothing"
	fourthRenewal   = "renewals of a reader after the third do nothing while others wait"

	writerCutsReaders  = "refused attempt of a writer cuts readers to its own TTL"
	readerCutsReaders  = "refused attempt of a reader cuts readers to its own TTL"
	heldErrorExpired   = "HeldError counts readers that have expired until the key is inspected"
	heldErrorItself    = "HeldError of a reader counts the attempt itself as a waiter"
	heldErrorHundred   = "HeldError counts 100 readers at most"
	inspectExpired     = "Inspect returns the last reader of a free key after its expiry"
	listsMany          = "list returns a key of more than 100 readers twice"
	listsBroken        = "list returns keys whose readers were broken"
	listsEvictedReader = "list returns keys whose readers were evicted"
	listsNoPrefix      = "list of the empty prefix leaves out keys of readers"
	listsFewShared     = "list ends at 128 keys of readers"
	listsPercent       = "list takes % at the end for any bytes of keys of readers"

	agedWriter         = "writer that has waited for 30 seconds keeps no readers out"
	agedReader         = "reader ends 30 seconds after its grant, although renewed"
	readerClock        = "lease of a reader ends by its client's clock"
	readersOverByClock = "leases of readers are over by the clock of who asks"
	readersUncounted   = "readers do not count among MaxLeases"

	endTogether       = "readers that enter together end with the last of them at the latest"
	resumeFromAnswer  = "deadline of a resumed reader counts from the answer"
	resumeFindsNoDead = "resume finds no reader of a process that is dead"
	resumeTinyReader  = "resume of a reader below MinTTL is kept as asked"
	resumeReaderNoTTL = "resume of a reader takes TTL 0"
	breakOfOtherKey   = "break ends readers of other keys"
	evictParksReaders = "eviction of a writer leaves waiting readers parked"

	examineRotates    = "Examine sends who waits first for a key to the end"
	examineIncomplete = "Examine returns a finding without a code"

	removalOfOthers = "removal of a reader is reported to those of other clients"
	evictsOneReader = "eviction of several readers is reported to the first"
)

// amongReadersMutants are bugs of readers beside others, which the checks of shared leases must find: of what a
// request, an end or a report of one means for the others.
var amongReadersMutants = []mutant{
	// timers and wake-ups
	{releaseStopsTimers, "WriterGetsKeyOfDeadReaders"},
	{breakStopsTimers, "WriterGetsKeyOfDeadReaders"},
	{leavingStopsTimers, "WriterGetsKeyOfDeadReaders"},
	{shortensLate, "WriterGetsKeyOfDeadReaders"},
	{releaseCutsNext, "ShortReaderSparesLong"},
	{renewedReaderPolls, "SharedPushIsPrompt"},
	{brokenWriterPolls, "SharedPushIsPrompt"},
	{closeStopsReaders, "CloseEndsOwnReaders"},
	{endTogether, "DeadReaderEndsByOwnTTL"},
	{intentOwnTTL, "SharedWaitOutlivesOwnTTL"},
	{writerLooks, "SharedUnderContention"},
	{readerLooks, "SharedUnderContention"},

	// queues
	{timeoutTakesNext, "MixedQueueFollowsModel"},
	{timeoutParks, "LeavingWriterFreesReaders"},
	{breakDropsThird, "MixedQueueFollowsModel"},
	{breakShutsOut, "BreakEndsOneReader"},
	{breakOfOtherKey, "BreakEndsOneReader"},
	{breakFindsFew, "ManyReaders"},
	{restartForgetsWait, "RestartKeepsReaders"},
	{killLeavesPlace, "KilledWriterFreesReaders"},

	// batches
	{batchHundred, "MixedBatchRenewsEach"},
	{batchFirstTTL, "MixedBatchRenewsEach"},
	{batchLongestTTL, "MixedBatchRenewsEach"},
	{batchOneLoss, "MixedBatchRenewsEach"},

	// reports
	{heldErrorExpired, "InspectCountsReaders"},
	{heldErrorItself, "InspectCountsReaders"},
	{heldErrorHundred, "ManyReaders"},
	{inspectExpired, "InspectCountsReaders"},
	{listsMany, "ManyReaders"},
	{listsFewShared, "ListReturnsSharedKeysOnce"},
}

// amongResumedMutants are such bugs that the checks of Resume must find.
var amongResumedMutants = []mutant{
	{resumeRotates, "ResumeOfReaders"},
	{resumeOfOtherKey, "ResumeOfReaders"},
	{resumeByPart, "ResumeOfReaders"},
	{resumeBesideWriter, "ResumeOfReaders"},
	{resumeReaderLooks, "ResumeRacesRelease"},
	{resumeEndsFirst, "TwoClientsOfOneLease"},
	{closeEndsResumed, "TwoClientsOfOneLease"},
	{lateResumeRevives, "LateResumeRevivesNothing"},
	{lostResumeCleans, "LostResumeReplyEndsNothing"},
	{resumeFromAnswer, "ResumeCountsFromSending"},
	{resumeFindsNoDead, "LeaseOfDeadProcessIsResumed"},
	{resumeTinyReader, "ResumeSetsTTL"},
	{resumeReaderNoTTL, "ResumeRefusesBadInput"},
}

// amongOthersMutants are such bugs that the checks of both modes must find.
var amongOthersMutants = []mutant{
	{breakByPlace, "BreakRacesRelease"},
	{breakFindsNoLong, "OddKeysAreServed"},
	{batchWriters, "RenewBatchReportsEach"},
	{seventhRenewal, "EachRenewalCounts"},
	{fourthRenewal, "EachRenewalCounts"},
	{writerCutsReaders, "RefusedAttemptChangesNothing"},
	{readerCutsReaders, "RefusedAttemptChangesNothing"},
	{listsBroken, "ListReturnsHeldKeys"},
	{listsEvictedReader, "ListReturnsHeldKeys"},
	{listsNoPrefix, "ListReturnsHeldKeys"},
	{listsPercent, "ListComparesBytes"},
	{agedWriter, "AgedThingsStand"},
	{agedReader, "AgedThingsStand"},
	{readerClock, "WrongClockEndsNothingEarly"},
	{readersOverByClock, "WrongClockEndsNothingEarly"},
	{readersUncounted, "MaxLeasesAreGranted"},
	{evictParksReaders, "EvictedKeyWakesWaiter"},
	{writerMarkStays, "RenewKeepsAlive"},
	{staleBesides, "LateRequestSparesOwnClient"},
	{staleEndsReaders, "LateRequestSparesOwnClient"},
	{waitNotHeld, "EndedWaitReportsBusy"},
	{examineRotates, "EventsKeepQueue"},
	{examineIncomplete, "EventsKeepQueue"},
}

// amongReadersLossMutants are bugs of stores that claim to notify a holder of the removal of its lease.
var amongReadersLossMutants = []mutant{
	{removalOfOthers, "RemovedHolderIsNotified"},
	{evictsOneReader, "RemovedHolderIsNotified"},
}

var _ backend.Examiner = (*client)(nil)

// Examine implements backend.Examiner.
func (c *client) Examine(ctx context.Context) (found []backend.Finding, err error) {
	err = c.do(ctx, func() {
		s := c.server
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range s.keys {
			if s.is(examineRotates) {
				e.queue = rotated(e.queue)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	f := backend.Finding{Code: "in-memory", Found: "a store in memory", Why: "data is lost with it", Set: "nothing"}
	if c.is(examineIncomplete) {
		f.Code = ""
	}
	return []backend.Finding{f}, nil
}

// stopsTimers stops the timers of all readers of e, as a bug: their ends are noticed at the next request for the key.
func (s *server) stopsTimers(e *entry, bug string) {
	if s.is(bug) {
		for _, r := range e.readers {
			r.timer.Stop()
		}
	}
}

// releasesAmong applies the bugs in which the release of reader i of e touches others.
func (s *server) releasesAmong(key string, e *entry, i int) {
	s.stopsTimers(e, releaseStopsTimers)
	r := e.readers[i]
	if i+1 < len(e.readers) && r.expires.Before(e.readers[i+1].expires) && s.is(releaseCutsNext) {
		s.extendReader(key, e, e.readers[i+1], r.expires)
	}
	if len(e.readers) == 1 && len(e.queue) > 0 && !r.renewed.IsZero() && s.is(renewedReaderPolls) {
		e.queue[0].silenced = true
	}
}

// breaksAmong applies the bugs in which the Break of a reader of e touches others.
func (s *server) breaksAmong(e *entry) {
	s.stopsTimers(e, breakStopsTimers)
	e.odd.broken = true
	if len(e.queue) > 2 && s.is(breakDropsThird) {
		e.queue = slices.Delete(e.queue, 2, 3)
	}
}

// brokenPlace returns the place i of the reader that Break is to end, or -1 if a bug makes Break miss the reader.
func (s *server) brokenPlace(key string, i int) int {
	if i >= 128 && s.is(breakFindsFew) || len(key) > 255 && s.is(breakFindsNoLong) {
		return -1
	}
	return i
}

// breaksByPlace ends the reader that has place i after a while, as a bug.
func (s *server) breaksByPlace(key string, e *entry, i int) {
	s.mu.Unlock()
	time.Sleep(40 * time.Millisecond) // sleeps: a reader may release its lease meanwhile
	s.mu.Lock()
	if i < len(e.readers) {
		s.removeReader(key, e, i)
	}
}

// breaksOtherKey ends the reader owner of any other key, as a bug. It reports whether it did.
func (s *server) breaksOtherKey(owner string) bool {
	if !s.is(breakOfOtherKey) {
		return false
	}
	for key, e := range s.keys {
		if i := e.readerIndex(owner); i >= 0 {
			s.removeReader(key, e, i)
			return true
		}
	}
	return false
}

// endsTogether gives the readers of e that have just entered together the end of the last, if that is sooner, as a bug.
// before is how many readers held the key before.
func (s *server) endsTogether(key string, e *entry, before int) {
	if n := len(e.readers); n > before && s.is(endTogether) {
		for _, r := range e.readers[before:] {
			if end := e.readers[n-1].expires; end.Before(r.expires) {
				s.extendReader(key, e, r, end)
			}
		}
	}
}

// notifiesOthers notifies the readers of e that are not of the client of r, whose lease was broken, as a bug.
func (s *server) notifiesOthers(e *entry, r *reader) {
	for _, other := range e.readers {
		if other.client != r.client && s.is(removalOfOthers) {
			s.notify(&entry{owner: other.owner, client: other.client}, true)()
		}
	}
}

// closesReaderTimers stops the timers that end the readers of c, as a bug of Close.
func (s *server) closesReaderTimers(c *client) {
	if !s.is(closeStopsReaders) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		for _, r := range e.readers {
			if r.client == c {
				r.timer.Stop()
			}
		}
	}
}

// shutsOut reports whether r, which may share the key of e, is refused or parked, as a bug.
func (s *server) shutsOut(e *entry, r backend.Request) bool {
	return len(e.readers) > 0 && (e.odd.broken && s.is(breakShutsOut) || e.odd.parks && r.Wait) ||
		s.refusesAfterEvents(e, r)
}

// renewsSeldom counts a renewal of the reader r of e. It reports whether the renewal does nothing, as a bug.
func (s *server) renewsSeldom(e *entry, r *reader) bool {
	r.renewals++
	return r.renewals%7 == 0 && s.is(seventhRenewal) || r.renewals > 3 && len(e.queue) > 0 && s.is(fourthRenewal)
}

// resumesOther applies the bugs of a Resume by an owner that has no lease of key, but perhaps one like it.
func (s *server) resumesOther(key string, e *entry, r backend.Request, now time.Time) (token uint64, held bool) {
	switch {
	case s.is(resumeOfOtherKey):
		for _, other := range s.keys {
			if found := other.reader(r.Owner); found != nil {
				return found.token, true
			}
		}
	case s.is(resumeByPart):
		for _, other := range e.readers {
			if strings.Contains(other.owner, r.Owner) {
				return other.token, true
			}
		}
	case s.is(resumeBesideWriter) && e.owner != "":
		return s.revivesReader(key, e, r, now)
	}
	return 0, false
}

// revivesReader gives the expired reader of r another lease.
func (s *server) revivesReader(key string, e *entry, r backend.Request, now time.Time) (token uint64, revived bool) {
	for _, old := range s.ended {
		if old.key == key && old.owner == r.Owner {
			e.readers = append(e.readers, old.reader)
			s.extendReader(key, e, old.reader, now.Add(r.TTL))
			return old.token, true
		}
	}
	return 0, false
}

// resumesLate revives the reader of r, whose Resume came late to the free key of e, as a bug.
func (s *server) resumesLate(key string, e *entry, r backend.Request, late bool) {
	if late && e.owner == "" && len(e.readers) == 0 && s.is(lateResumeRevives) {
		s.revivesReader(key, e, r, time.Now())
	}
}

// resumesInTwo waits before own is resumed, as a bug: own may have ended by then.
func (s *server) resumesInTwo(e *entry, own *reader) {
	if !s.is(resumeReaderLooks) {
		return
	}
	s.mu.Unlock()
	time.Sleep(40 * time.Millisecond) // sleeps: the lease may end meanwhile
	s.mu.Lock()
	if e.reader(own.owner) == nil {
		e.readers = append(e.readers, own)
	}
}

// isResumed reports whether another client than c has resumed the reader of l last.
func (c *client) isResumed(l *kit.Life) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.entryLocked(s.sharedName(s.name(l.Key()))).reader(l.Owner())
	return r != nil && r.resumedBy != nil && r.resumedBy != c
}

// keptInBatch returns for how long the store keeps lease i of a batch, which is kept without a bug.
func (c *client) keptInBatch(lives []*kit.Life, ttls []time.Duration, i int, kept time.Duration) time.Duration {
	first, longest, last := c.is(batchFirstTTL), c.is(batchLongestTTL), c.is(batchLastTTL)
	if !lives[i].Shared() || !first && !longest && !last {
		return kept
	}
	for j, l := range lives {
		if !l.Shared() || l.Key() != lives[i].Key() {
			continue
		}
		if first {
			return ttls[j]
		}
		if kept = max(kept, ttls[j]); last {
			kept = ttls[j]
		}
	}
	return kept
}

// hidesLoss reports whether a batch hides err from l, because another reader of its key is lost too, as a bug.
func (c *client) hidesLoss(before []*kit.Life, l *kit.Life, err error) bool {
	if !l.Shared() || !errors.Is(err, backend.ErrLost) || !c.is(batchOneLoss) {
		return false
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(before, func(other *kit.Life) bool {
		return other.Shared() && other.Key() == l.Key() &&
			s.entryLocked(s.sharedName(s.name(other.Key()))).reader(other.Owner()) == nil
	})
}

// answersWriters gives the readers of a batch the answers of the writers of their keys, as a bug.
func (c *client) answersWriters(renewals []backend.Renewal, errs []error) {
	if !c.is(batchWriters) {
		return
	}
	answers := make(map[string]error)
	for _, shared := range []bool{false, true} {
		for i, r := range renewals {
			l, ok := r.Lease.(*kit.Life)
			if !ok || l.Shared() != shared || i >= len(errs) {
				continue
			}
			answer, found := answers[l.Key()]
			switch {
			case !shared:
				answers[l.Key()] = errs[i]
			case found:
				errs[i] = answer
			}
		}
	}
}

// refusedAmong returns the holder that the refusal of r reports, which is h without a bug.
func (s *server) refusedAmong(e *entry, r backend.Request, h backend.Holder) backend.Holder {
	if len(e.readers) == 0 {
		return h
	}
	switch {
	case r.Shared && s.is(heldErrorItself):
		h.Waiters++
	case s.is(heldErrorExpired):
		h.Shared += e.odd.expired
	case s.is(heldErrorHundred):
		h.Shared = min(h.Shared, 100)
	}
	return h
}

// cutsReaders gives the readers of e the TTL of r, a refused attempt, as a bug.
func (s *server) cutsReaders(key string, e *entry, r backend.Request) {
	if r.Shared && !s.is(readerCutsReaders) || !r.Shared && !s.is(writerCutsReaders) {
		return
	}
	for _, other := range e.readers {
		if end := time.Now().Add(r.TTL); end.Before(other.expires) {
			s.extendReader(key, e, other, end)
		}
	}
}

// inspectsExpired returns the last reader of key, whose lease has expired, as a bug.
func (s *server) inspectsExpired(key string, e *entry) (h backend.Holder, found bool) {
	if !e.odd.ranOut || e.owner != "" || !s.is(inspectExpired) {
		return h, false
	}
	for _, old := range slices.Backward(s.ended) {
		if old.key == key {
			return backend.Holder{Owner: old.owner, Token: old.token, Shared: 1}, true
		}
	}
	return h, false
}

// listsEnded reports whether a list includes e, which nobody holds, as a bug.
func (s *server) listsEnded(e *entry) bool {
	return e.odd.broken && s.is(listsBroken) || e.odd.evicted && s.is(listsEvictedReader)
}

// listsShared reports whether a list of prefix includes key, which readers hold. fits is the result without a bug, and
// before is how many keys of readers the list has already.
func (s *server) listsShared(e *entry, key, prefix string, fits bool, before int) bool {
	if e.owner != "" {
		return fits
	}
	switch {
	case s.is(listsNoPrefix) && prefix == "", s.is(listsFewShared) && before >= 128,
		s.is(listsDead) && e.measured.dead > 0:
		return false
	case s.is(listsPercent):
		return strings.HasPrefix(key, strings.TrimSuffix(prefix, "%"))
	}
	return fits
}
