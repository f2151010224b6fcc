// Package pair combines two stores, to switch from one to the other without ever having two owners. Processes that
// still use only the first, processes that use both, and later processes that use only the second exclude each other,
// as long as the first and the last kind do not run at the same time. docs/switching.md explains the whole procedure.
//
// A lease of the pair is a lease at the first store and one at the second, acquired in that order and released in
// reverse. Its deadline is the earlier of the two, and the loss of either is its loss.
//
// A waiter queues at the first store. When it holds that and finds the second busy, it queues there for at most a
// second. Then it releases the first, pauses for up to a quarter of a second, and starts again, so that processes that
// use only the first get their turn. While it queues at the second, they find the key busy.
//
// # Shared leases
//
// Both halves of a shared lease are shared. A waiter keeps its place among readers and writers while it queues at the
// first store. A writer that releases the first store's half, because readers hold the second for longer than a second,
// loses its place: readers that arrive meanwhile go before it.
//
// # Tokens
//
// The two stores count separately. The cut decides which number counts: while the first store's number is below the
// cut, that number is the token; from the cut on, the second store's number is. Tokens rise through a switch if
//
//   - the second store has a lock_token_base that is the cut or more,
//   - nobody uses only the first store any more once its numbers have passed the cut, and
//   - nobody uses only the second store until they have, and [SwitchDelay] has passed since.
//
// Some stores number a waiter when it arrives, so that its number may be old when it is granted. If a lease's number is
// below the cut, and the lease took longer than SwitchDelay to get, the pair takes one more number at the first store,
// on a key of its own. This needs room for one more lease. If that number has passed the cut, both halves are released
// and acquired again.
//
// Every process that uses both must have the same cut. Without one the second store's number is the token.
//
// # Guarantees
//
// Each field is the weaker of the two stores':
//
//   - MinTTL: the longer. Granularity: the coarser.
//   - MaxTTL, MaxSilence, MaxLeases: the smaller of those that are set. MaxLate: the longer.
//   - EarlyLoss: either's. ReportsLoss: if both do. EnforcedBy: both.
//   - Fencing, Wake, Consistency, Reach: the weaker. Two processes that use both stores exclude each other if either
//     store does, but others use only one of them.
//   - Shared: if both do.
//   - FIFO: never, since a waiter that releases the first store's half loses its place.
//
// Each lease is renewed by two requests, even if both stores can renew many leases at once.
//
// # Failure modes
//
// An outage of either store is an outage of the pair: nothing is granted, and leases that cannot be renewed at both
// end. If the second store refuses or fails, the first is held for a moment, in which others find the key busy. If one
// store drops a lease, the other keeps its half until the holder releases it, or its TTL has run out.
//
// # URLs
//
//	pair:?lock_first=URL&lock_second=URL&lock_cut=N
//
// The URLs are escaped like query parameters ([URL] does it) and keep their own parameters, even lock_prefix and
// lock_token_base. Import the packages of both stores.
package pair
