package conformance_test

import "slices"

// A mutant is the reference store with one bug, which one check must find.
type mutant struct {
	bug   string
	check string
}

var mutants = slices.Concat(plainMutants, crowdMutants, cutMutants, replyMutants, partitionMutants, processMutants,
	historyMutants,
	emptyMutants, busyMutants, numberMutants, queueMutants, likenessMutants, timeMutants, endingMutants, operateMutants,
	operateEndedMutants, resumeCloseMutants, secondRenewalMutants, concurrentRenewalMutants,
	concurrentReleaseMutants, silentMutants,
	removedMutants,
	clockMutants, keyMutants, batchMutants, frameMutants, minTTLMutants, listMutants, unreachableMutants, lastingMutants,
	restartMutants,
	queueEventMutants, reconnectMutants, reconnectLossMutants, sharedMutants, resumeMutants,
	originMutants, seriesMutants, siblingMutants, exclusiveMutants, narrowMutants, narrowLossMutants, lifeMutants,
	closeMutants, twoStepMutants, agedMutants, joinedCallMutants, calledAtCloseMutants, clockQueueMutants, nameMutants,
	hashMutants, manyKeyMutants, silentStoreMutants, memberMutants, attemptMutants, waiterMutants, readerMutants,
	methodMutants, removalMutants, laterMutants, eventMutants, amongReadersMutants, amongResumedMutants,
	amongOthersMutants, amongReadersLossMutants, ordinaryReaderMutants, ordinaryMutants, handwrittenMutants,
	readerEventMutants, resumedEventMutants, otherEventMutants, betweenMutants)

var plainMutants = []mutant{
	// guarantees
	{"Guarantees change with use", "GuaranteesAreConstant"},
	{"Guarantees contradict each other", "GuaranteesAreConsistent"},

	// exclusion
	{"each client has a store of its own", "ClientsShareStore"},
	{"no exclusion", "ExclusiveAcrossClients"},
	{"acquire checks, then sets", "OneAttemptWins"},
	{"re-entrant per client", "OwnersOfOneClientExclude"},
	{"re-entrant per client", "ExclusiveInOneClient"},
	{"lease ends after 9/10 of its TTL", "ExclusiveUnderExpiry"},
	{"keys share one lock", "KeysAreIndependent"},

	// TTL
	{"lease ends after 9/10 of its TTL", "TTLNotEarly"},
	{"lease ends a second late", "TTLNotLate"},
	{"lease never ends", "TTLNotLate"},
	{"TTL is cut to seconds", "TTLIsRoundedUp"},
	{"deadline has no margin", "DeadlineHasMargin"},
	{"deadline is further away than MaxSilence", "DeadlineHasMargin"},
	{"deadline counts from the answer", "DeadlineAnchoredBeforeSend"},
	{"refused attempt prolongs the holder's lease", "RefusedAttemptsProlongNothing"},
	{"refused attempt replaces the TTL", "RefusedAttemptChangesNothing"},
	{"refused attempt replaces the owner", "RefusedAttemptChangesNothing"},
	{"refused attempt counts the holder's token up", "RefusedAttemptChangesNothing"},

	// ownership
	{"stale Release is sent without owner", "StaleReleaseSparesNewHolder"},
	{"stale Renew is sent without owner", "StaleRenewSparesNewHolder"},
	{"release ignores the owner", "EvictedReleaseSparesNewHolder"},
	{"release ignores the owner", "WaiterCleanUpSparesHolder"},
	{"release ignores the owner", "RefusedCleanUpSparesHolder"},
	{"renew ignores the owner", "EvictedRenewSparesNewHolder"},
	{"renew ignores the owner", "EvictedBatchSparesNewHolder"},
	{"Renew succeeds after Release", "ReleasedLeaseSparesNewHolder"},
	{"second Release is ErrLost", "ReleaseTwice"},
	{"Release after expiry is nil", "ReleaseAfterExpiry"},
	{"Release ends every lease of the client", "LeasesOfOneClientAreSeparate"},

	// renewal
	{"renew never reaches the store", "RenewKeepsAlive"},
	{"renew never shortens", "RenewShortens"},
	{"renew adds to what is left", "RenewShortens"},
	{"stale Renew takes a free key", "RenewAfterExpiry"},
	{"renew takes a free key", "EvictedRenewRevivesNothing"},
	{"renew takes a free key", "RenewRacesRelease"},
	{"renew never reaches the store", "RenewRacesExpiry"},
	{"Renew succeeds after Release", "RenewAfterRelease"},
	{"Renew takes TTL 0", "RenewRefusesBadTTL"},
	{"Renew ignores the context", "RenewHonoursContext"},
	{"batch renews all for the first TTL", "LargeBatchRenewsEach"},
	{"batch reports errors of lost leases only once", "RenewBatchReportsEach"},

	// loss
	{"Lost never closes", "LostAtDeadline"},
	{"Lost closes at half the TTL", "LostAtDeadline"},
	{"Lost closes 3 seconds late", "LostAtDeadline"},
	{"deadline stands at MaxSilence", "LostAtDeadline"},
	{"Lost closes at the first deadline", "LostFollowsRenewal"},
	{"Lost closes after a clean release", "LostNeverAfterRelease"},
	{"OnLost calls twice", "OnLostCalls"},
	{"OnLost calls after a release", "LostNeverAfterRelease"},

	// waiting
	{"release that meets a waiter coming is missed", "NoLostWakeUp"},
	{"waiter looks once a second", "PushIsPrompt"},
	{"expiry wakes nobody", "WaiterGetsExpiredKey"},
	{"timer of the first TTL only", "WaiterOutlastsShortenedLease"},
	{"at most 20 waiters are woken", "ManyWaitersDrain"},
	{"waiter gives up after its TTL", "WaitOutlivesOwnTTL"},
	{"waiter's TTL counts from its arrival", "WaitOutlivesOwnTTL"},
	{"release leaves waiters parked", "WaiterGetsReleasedKey"},
	{"eviction wakes nobody", "EvictedKeyWakesWaiter"},
	{"cancelled request is not cleaned up", "WaitingKeepsNobodyOut"},
	{"queue is last in, first out", "FIFO"},
	{"queue is by owner", "FIFO"},
	{"queue is last in, first out", "FIFOAfterExpiry"},
	{"leaving waiter swaps places", "FIFOAfterCancel"},
	{"waiter asks anew after its TTL", "LongWaitKeepsPlace"},
	{"refused attempt stays in the queue", "TryDisturbsNoWaiter"},

	// cancellation
	{"ended context is not looked at", "CancelledBefore"},
	{"wait ignores the context", "CancelledWhileWaiting"},
	{"context's error is hidden", "CancelledWhileWaiting"},
	{"cancelled wait is ErrHeld", "CancelledWhileWaiting"},
	{"cancelled request is not cleaned up", "CancelledWhileWaiting"},
	{"cancelled request is not cleaned up", "CancelRacesGrant"},
	{"cancelled request is not cleaned up", "CancelRacesAttempt"},
	{"cancellation at the grant keeps the key", "CancelRacesGrant"},
	{"cancelled request is not cleaned up", "CancelledWaiterDelaysNextBriefly"},
	{"context of Acquire ends the lease", "CancelledAfterGrant"},
	{"Release is not sent when its context has ended", "CancelledReleaseReleases"},

	// tokens
	{"token is constant", "TokensIncrease"},
	{"token is forgotten with an expired lease", "TokensIncrease"},
	{"token counts per client", "TokensIncrease"},
	{"token is 2^55 and more", "TokensIncrease"},
	{"renew counts the token up", "InspectReturnsHolder"},
	{"token is forgotten with an expired lease", "TokensIncreaseForWaiters"},
	{"token counts per client", "ExclusiveAcrossClients"},
	{"tokens are forgotten with the last client", "TokensOutliveClients"},
	{"tokens are forgotten with the last client and lease", "TokensOutliveClients"},
	{"tokens restart with the store", "TokensSurviveRestart"},
	{"token is constant", "EvictedTokensIncrease"},
	{"token although none is promised", "NoTokensPromised"},

	// keys
	{"keys share their last byte's lock", "KeysAreBytes"},
	{"keys end at NUL", "KeysAreBytes"},
	{"keys are folded to lower case", "KeysAreInjective"},
	{"keys are trimmed of blanks", "KeysAreInjective"},
	{"keys are made valid UTF-8", "KeysAreInjective"},
	{"keys are put into a normal form", "KeysAreInjective"},
	{"keys are cleaned as paths", "KeysAreInjective"},
	{"keys are their hash tag", "KeysAreInjective"},
	{"keys are cut at 250 bytes", "KeysAreLong"},
	{"keys are cut at 1023 bytes", "KeysAreLong"},
	{"longer keys are taken", "KeysAreLong"},

	// input and Inspect
	{"TTL 0 is taken", "BadInputIsRefused"},
	{"longer TTL than MaxTTL is taken", "BadInputIsRefused"},
	{"longer TTL than MaxTTL is taken", "RenewRefusesBadTTL"},
	{"long TTL is refused", "ExtremesAreAccepted"},
	{"TTL in milliseconds is an int32", "ExtremesAreAccepted"},
	{"Inspect cuts the owner", "InspectReturnsHolder"},
	{"Inspect returns the TTL in milliseconds", "InspectReturnsHolder"},
	{"Inspect returns expired leases", "InspectAfterExpiry"},
	{"Inspect counts the holder as a waiter", "InspectCountsWaiters"},
	{"Inspect of a key that waits for its next holder is free", "ReservedKeyIsNotFree"},
	{"Inspect ignores the context", "InspectHonoursContext"},
	{"HeldError names the one who asks", "HeldErrorNamesHolder"},

	// Close and goroutines
	{"Close leaves waiters waiting", "CloseEndsWaiting"},
	{"waiter of a closed client stays in the queue", "CloseEndsWaiting"},
	{"Close leaves leases live", "CloseEndsLeases"},
	{"Close leaves leases live", "CloseRacesAcquire"},
	{"closed client works on", "CloseRefusesLaterCalls"},
	{"second Close is an error", "CloseRefusesLaterCalls"},
	{"Close drops the store", "CloseSparesOtherClients"},
	{"Close leaves a goroutine", "CloseLeaksNoGoroutine"},
	{"goroutine for each lease", "LeasesCostNoGoroutines"},
	{"wait leaves a goroutine", "EndedWaitsLeakNoGoroutine"},

	// faults
	{"hung Renew keeps Lost open", "FrozenStoreLosesLease"},
	{"attempt ignores the context while the store hangs", "FrozenStoreHonoursContext"},
	{"Release waits for the store for ever", "FrozenReleaseIsBounded"},
	{"broken connection ends the wait", "CutClientRecovers"},
	{"restart parks waiters", "RestartKeepsWaiters"},
	{"restart drops leases", "RestartKeepsLeases"},
	{"restart puts leases back to their first TTL", "RestartKeepsLeases"},
	{"restart begins leases anew for their first TTL", "RestartKeepsLeases"},
	{"Lost closes 3 seconds late", "FrozenStoreKeepsOrder"},

	// members of a cluster
	{"a member's end takes its leases along", "StoppedMemberLosesNothing"},
	{"a member's end takes its waiters along", "StoppedMemberLosesNothing"},
	{"one frozen member stops the service", "FrozenMemberLosesNothing"},
	{"a member that goes on frees what it was asked for long ago", "FrozenMemberLosesNothing"},
	{"an empty member votes at once", "EmptiedMemberLosesNothing"},
	{"an empty member counts tokens anew", "EmptiedMemberLosesNothing"},
}
