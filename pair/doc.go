// Package pair makes one store of two, for a switch from one to the other without two owners: processes that still use the
// first alone, processes that use both, and later processes that use the second alone exclude each other, as long as the first
// and the last kind do not run at the same time. docs/switching.md tells the whole of it.
//
// A lease of the pair is a lease at the first store and one at the second, taken in that order and released in reverse. Its
// deadline is the earlier of the two, and the loss of either is its loss.
//
// A waiter queues at the first store. When it holds that and finds the second busy, it queues there for a second at most; then it
// gives the first back, pauses for up to a quarter of a second, and begins anew, so that those who use the first alone get their
// turn. While it queues at the second, they find the key busy.
//
// # Tokens
//
// Two stores count apart. What counts for a lease is told by the cut: while the first store's number is below it, that number is
// the token; from the cut on it is the second store's. Tokens rise through a switch if
//
//   - the second store has a lock_token_base that is the cut or more,
//   - nobody uses the first store alone any more once its numbers have passed the cut, and
//   - nobody uses the second store alone until they have, and [Settled] has gone by since.
//
// Some stores number a waiter when it arrives. So a lease whose number is below the cut, and that took longer than Settled to get, draws
// one more number at the first store, on a key of its own, to see whether the cut is passed. That needs room for one more lease. If it
// is passed, the number is too old: both halves are given back, and taken anew.
//
// Every process that uses both must have the same cut. Without one the second store's number is the token.
//
// # Guarantees
//
// Each field is the weaker of the two stores':
//
//   - MinTTL: the longer. Granularity: what both can count, their least common multiple.
//   - MaxTTL, MaxSilence, MaxLeases: the smaller of those that are set. MaxLate: the longer.
//   - EarlyLoss: either's. TellsLoss: if both do. EnforcedBy: both.
//   - Fencing, Wake, Consistency, Reach: the weaker. Two who use both stores exclude each other while either store does, but their
//     neighbours use one.
//   - FIFO: never, since a waiter that gives the first store back loses its place.
//
// # Failure modes
//
// Either store's outage is the pair's: nothing is granted, and leases that cannot be renewed at both end. A refusal or an
// error by the second store takes the first for a moment, in which others find the key busy. When one store drops a lease, the
// other keeps its half until the holder releases it, or its TTL has run out.
//
// # URLs
//
//	pair:?lock_first=URL&lock_second=URL&lock_cut=N
//
// The URLs are escaped as query parameters are ([URL] does it) and keep parameters of their own, also lock_prefix and lock_token_base.
// Import the packages of both stores.
package pair
