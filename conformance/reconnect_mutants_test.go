package conformance_test

// reconnectMutants are bugs that appear if clients are disconnected for seconds, or requests arrive late.
var reconnectMutants = []mutant{
	{"lease ends 3 seconds after its connection was closed", "DisconnectedHolderKeepsLease"},
	{"lease ends 3 seconds after its client fell silent", "DisconnectedHolderKeepsLease"},
	{"holder gives up after 3 seconds without contact", "DisconnectedHolderKeepsLease"},
	{"reconnect after 3 seconds begins a new session", "DisconnectedHolderKeepsLease"},
	{"waiter gives up after 2 seconds of silence", "SilentWaiterOutlivesOutage"},
	{"waiter that is silent for 2 seconds is forgotten", "SilentWaiterOutlivesOutage"},
	{"waiter behind a path that was silent for 2 seconds hears nothing more", "SilentWaiterOutlivesOutage"},

	{"waiter that queues again after a cut is first", "ReconnectedWaiterSparesOthers"},
	{"waiter that queues again after a cut turns the queue round", "ReconnectedWaiterSparesOthers"},
	{"cancelled waiter takes its client's other places along after a cut", "ReconnectedWaiterSparesOthers"},
	{"client that was cut is woken by a timer", "ReconnectedWaiterIsWoken"},
	{"waiter that queues again after a cut is woken by a timer", "ReconnectedWaiterIsWoken"},
	{"waiter that comes after a cut is woken by a timer", "ReconnectedWaiterIsWoken"},
	{"client does not notice a dead connection", "DeadConnectionIsReplaced"},
	{"dead connection ends the leases of its client", "DeadConnectionIsReplaced"},
	{"renewal by a dead connection revives its own expired lease", "StrandedRequestChangesNothing"},
	{"release by a dead connection ends the next holder's lease", "StrandedRequestChangesNothing"},

	{"renewal revives its own expired lease", "LateRenewalRevivesNothing"},
	{"batch revives its own expired lease", "LateRenewalRevivesNothing"},
	{"late renewal in a batch is for any owner", "LateRenewalRevivesNothing"},
	{"deadline of a waiter that queued again counts from the answer", "LateTurnIsOneLease"},
	{"late release ends another lease of its client", "LateRequestSparesOwnClient"},
	{"late renewal prolongs another lease of its client", "LateRequestSparesOwnClient"},
	{"clean-up of an attempt gives up after 3 seconds", "LongLateAcquireLeavesNothing"},
	{"clean-up of a cancelled wait gives up after 3 seconds", "LongLateAcquireLeavesNothing"},
}

// reconnectLossMutants are bugs of stores that claim to notify a holder of the removal of its lease.
var reconnectLossMutants = []mutant{
	{"removal after a cut is reported by a renewal alone", "ReconnectedHolderIsNotified"},
	{"removal while disconnected is reported by a renewal alone", "ReconnectedHolderIsNotified"},
	{"removal of a lease that was granted after a cut is reported by a renewal alone", "ReconnectedHolderIsNotified"},
	{"removal after a cut is reported to every holder of its client", "ReconnectedHolderIsNotified"},
}
