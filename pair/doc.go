// Package pair combines two stores, to switch from the first to the second without ever having two owners of a key.
// Processes that use only the first store, processes that use both, and processes that use only the second exclude each
// other, as long as no process uses only the first while another uses only the second. docs/switching.md explains the
// whole procedure.
//
// A lease of the pair consists of two halves: a lease at the first store and a lease at the second. They are acquired
// in that order and released in reverse. The deadline of the pair's lease is the earlier of the two. If either half is
// lost, the lease is lost.
//
// A waiter queues at the first store. If it holds the first half and finds the second busy, it queues at the second
// store for at most a second. Then it releases the first half, pauses for up to a quarter of a second, and starts
// again, so that processes that use only the first store get their turn. While it queues at the second store, those
// processes find the key busy.
//
// # Shared leases
//
// Both halves of a shared lease are shared. A waiter keeps its place among readers and writers while it queues at the
// first store. A writer that releases the first store's half, because readers hold the second for longer than a second,
// loses its place: readers that arrive meanwhile overtake it.
//
// # Tokens
//
// Each store numbers its leases separately. While the first store's number is below the cut, that number is the token;
// from the cut on, the second store's number is the token. Tokens increase through a switch if
//
//   - the second store's lock_token_base is at least the cut,
//   - no process uses only the first store once the first store's numbers have passed the cut, and
//   - no process uses only the second store until [SwitchDelay] after the first store's numbers have passed the cut.
//
// Some stores number a waiter when it arrives, so that its number may be old when the key is granted. If a lease's
// number is below the cut, and acquiring the lease took longer than SwitchDelay, the pair draws a new number from the
// first store, with a lease on a key of its own. This needs room for one more lease. If the new number has passed the
// cut, both halves are released and acquired again.
//
// All processes that use both stores must have the same cut. Without a cut the second store's number is the token.
//
// # Guarantees
//
// Each field is the weaker of the two stores' values:
//
//   - MinTTL: the longer. Granularity: the coarser.
//   - MaxTTL, MaxSilence, MaxLeases: the smaller of those that are set. MaxLate: the longer.
//   - EarlyLoss, EnforcedBy: those of both stores. ReportsLoss: if both stores report losses.
//   - Fencing, Wake, Consistency, Reach: the weaker. Two processes that use both stores exclude each other if either
//     store excludes them, but a process that uses one store depends on that store alone.
//   - Shared: if both stores grant shared leases.
//   - FIFO: never, because a waiter that releases the first store's half loses its place.
//
// Each lease is renewed by two requests, even if both stores can renew many leases at once.
//
// # Failure modes
//
// An outage of either store is an outage of the pair: nothing is granted, and a lease that cannot be renewed at both
// stores ends. If the second store refuses or fails, the first half is held for a moment, and others find the key busy.
// If one store drops a lease, the other store keeps its half until the holder releases it, or its TTL has run out.
//
// # URLs
//
//	pair:?lock_first=URL&lock_second=URL&lock_cut=N
//
// The URLs are escaped like query parameters ([URL] escapes them) and keep their own parameters, even lock_prefix and
// lock_token_base. Import the packages of both stores.
package pair
