package conformance_test

import (
	"slices"
	"time"
)

// exclusiveMutants are bugs of exclusive leases in narrow situations: what a channel, a callback or a result means after
// a later call, which leases one timer or one batch serves, and what a token survives.
var exclusiveMutants = []mutant{
	{"channel of Lost is a new one after Renew", "LostFollowsRenewal"},
	{"channel of Lost from before a Renew closes at the old deadline", "LostFollowsRenewal"},
	{"release of the lease that ends first stops the timer of the others", "LostAtDeadline"},
	{"of leases renewed in one batch only the first is lost at the deadline", "LostFollowsRenewal"},
	{"OnLost calls under the lock of Deadline", "OnLostCallsWhateverEndsIt"},
	{"OnLost calls before Lost closes when its client is closed", "OnLostCallsWhateverEndsIt"},
	{"OnLost calls before Lost closes when a renewal hears of the loss", "OnLostCallsWhateverEndsIt"},
	{"OnLost forgets its functions when a batch renews the lease", "OnLostCallsWhateverEndsIt"},
	{"stale release makes the client forget its next lease of the key", "StaleReleaseSparesNewHolder"},
	{"context of Renew ends the lease", "CancelledAfterGrant"},
	{"Renew whose own context ends after the reply is undone", "CancelledAfterGrant"},
	{"Release that its context ends under way is not repeated", "CancelledReleaseUnderWay"},
	{"batch that meets a Renew keeps the later deadline", "ConcurrentRenewalsAgree"},
	{"lease that a batch has refused as invalid is not renewed again", "RenewBatchReportsEach"},
	{"lease of a batch whose context had ended is not renewed again", "RenewBatchReportsEach"},
	{"answers of a batch are overwritten by the next one", "RenewBatchReportsEach"},
	{"batch has one answer for a lease that it contains twice", "RenewBatchReportsEach"},
	{"lease that a batch contains twice has the first deadline and the last expiry", "RenewBatchReportsEach"},
	{"batch matches its answers by key", "RenewBatchReportsEach"},
	{"answers of a batch are in the order of TTLs", "BatchFindsLossesAnywhere"},
	{"break compares, then ends", "BreakRacesRelease"},
	{"HeldErrors of a client are one", "HeldErrorNamesHolder"},
	{"HeldError has the TTL of the grant after a renewal", "HeldErrorNamesHolder"},
	{"HeldError has the whole TTL and not the rest", "HeldErrorNamesHolder"},
	{"next list overwrites the keys of the last one", "ListReturnsHeldKeys"},
	{"list of the empty prefix is empty", "ListReturnsHeldKeys"},
	{"Break of nobody prolongs the holder's lease", "RefusedAttemptsProlongNothing"},
	{"at most 100 leases expire in 100 ms", "TTLNotLate"},
	{"token is forgotten with a broken lease that nobody waits for", "TokensIncrease"},
	{"token is forgotten after twice the TTL", "TokensIncrease"},
	{"token is forgotten when a waiter leaves", "TokensIncreaseForWaiters"},
	{"token is forgotten when a resumed lease is released", "TokensIncrease"},
	{"Inspect of a broken key returns its last token", "OddKeysAreServed"},
	{"store keeps a record of each renewal", "StoreForgetsEndedLeases"},
	{"each batch leaves a goroutine until Close", "ClientForgetsEndedLeases"},
	{"each renewal leaves a goroutine until Close", "ClientForgetsEndedLeases"},
	{"each List leaves a goroutine until Close", "ClientForgetsEndedLeases"},
	{"batch of a closed client has no answers", "CloseRefusesLaterCalls"},
	{crowdTimer, "LostAtDeadline"},
	{"Close releases leases that were waited for", "ResumeContinuesLease"},
}

// isExclusive reports whether the server has one of exclusiveMutants.
func (s *server) isExclusive() bool {
	return slices.ContainsFunc(exclusiveMutants, func(m mutant) bool { return m.bug == s.bug })
}

// forgetsTokens reports whether the server's tokens count from 1, and are forgotten at times.
func (s *server) forgetsTokens() bool {
	return s.is("token is forgotten with a broken lease that nobody waits for", "token is forgotten after twice the TTL",
		"token is forgotten when a waiter leaves", "token is forgotten when a resumed lease is released",
		"token is forgotten when a key has been free for 20 seconds",
		"token is forgotten when a key has been free for a minute", "lease of the key tokens ends all tokens",
		evictForgets, closeForgets, tokenForTTL, brokenForgets, tokenHour, tokenDay, tokenCache,
		restartTokens)
}

// forgetsToken forgets the token of key, if the server has the bug.
func (s *server) forgetsToken(bug, key string) {
	if s.is(bug) {
		delete(s.tokens, key)
	}
}

// forgetsTokenLate forgets the token of key, as a bug, when twice the TTL of its last grant or renewal has passed.
func (s *server) forgetsTokenLate(key string) {
	if e := s.keys[key]; e != nil && time.Now().After(e.tokenUntil) {
		s.forgetsToken("token is forgotten after twice the TTL", key)
	}
}

// sweeps reports whether the store ends another expired lease now.
func (s *server) sweeps(now time.Time) bool {
	if !s.is("at most 100 leases expire in 100 ms") {
		return true
	}
	if slot := now.UnixMilli() / 100; slot != s.slot {
		s.slot, s.swept = slot, 0
	}
	s.swept++
	return s.swept <= 100
}

// closeAlone releases leases of a client that is closed, as a bug.
func (s *server) closeAlone(c *client) {
	if !s.is("Close releases leases that were waited for") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		if e.client == c && e.owner != "" && e.waited {
			s.endLocked(key, e)
		}
	}
}
