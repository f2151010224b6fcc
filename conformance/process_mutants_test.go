package conformance_test

// processMutants are bugs that appear with other processes: frozen, killed, or with a wrong clock.
var processMutants = []mutant{
	{"other processes have a store of their own", "ProcessesExclude"},
	{"lease ends a second late", "FrozenHolderLosesKey"},
	{"Lost never closes", "FrozenHolderLosesKey"},
	{"stale Renew is sent without owner", "FrozenHolderLosesKey"},
	{"stale Release is sent without owner", "FrozenHolderLosesKey"},
	{"Release after expiry is nil", "FrozenHolderLosesKey"},
	{"renewal that was frozen is believed", "ThawedRenewalRevivesNothing"},
	{"stale Renew is sent without owner", "ThawedRenewalRevivesNothing"},
	{"no exclusion", "FrozenInsideAcquire"},
	{"deadline counts from the answer", "FrozenWaiterDelaysNextBriefly"},
	{"expiry wakes nobody", "FrozenWaiterDelaysNextBriefly"},
	{"waiter whose turn came too late waits for ever", "FrozenWaiterDelaysNextBriefly"},
	{"waiter gives up after its TTL", "ThawedWaiterGetsTurn"},
	{"place in the queue ends with its TTL", "ThawedWaiterGetsTurn"},
	{"lease ends a second late", "KilledHolderFreesKey"},
	{"expiry wakes nobody", "KilledHolderFreesKey"},
	{"lease never ends", "KilledWaiterDelaysNextBriefly"},
	{"TTL is set by a second request", "KilledInsideAcquire"},
	{"release takes the TTL away first", "KilledInsideRelease"},
	{"no exclusion", "ProcessesExclude"},
	{"token counts per client", "ProcessesExclude"},
	{"lease is over by the clock of who asks", "WrongClockEndsNothingEarly"},
	{"lease ends by its holder's clock", "WrongClockEndsNothingEarly"},
	{"token is the client's clock", "WrongClockKeepsOrder"},
}
