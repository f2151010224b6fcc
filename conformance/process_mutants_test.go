package conformance_test

import (
	"time"

	"github.com/anylock/lock/backend"
)

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
	{"turn that a frozen process does not take turns the queue round", "FrozenWaitersDelayNextBriefly"},
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
	{freeByClock, "WrongClockKeepsOrder"},
}

const freeByClock = "token of a free key is the client's clock"

// drawsByClock makes the client's clock the token of an attempt, as a bug. Waiters have higher ones.
func (s *server) drawsByClock(key string, e *entry, r backend.Request, c *client) {
	if !r.Wait && s.is(freeByClock) {
		e.token = uint64(time.Now().Add(c.skew).UnixMicro())
		s.tokens[key] = max(s.tokens[key], e.token)
	}
}
