// Package redlock keeps locks on a majority of independent Redis servers, 5 or newer, or Valkey.
//
// A [Backend] grants a key when a quorum of an odd number of independent servers, more than half of them, has granted it.
// docs/redlock.md has the set-up, the proof of exclusion and of the order of tokens, their assumptions, and what breaks
// them. An acquire, a renewal and a release are one request each to every node, all sent at once, and end at the quorum; an
// acquire takes a second one when the nodes' counters for tokens differ. The whole suite runs on three and five servers of Redis 7.0, and on a fleet of a Redis 6.0, a
// Redis 8.0 and a Valkey 8.1.
//
// Import it for its URL schemes, or use [New] with go-redis clients that the application owns. Applications use package lock on top.
//
// # Guarantees
//
//   - No crash, restart, lost data, hung server or cut network lets two owners in. Exclusion is best effort nevertheless,
//     because nodes end leases by their wall clocks: one that is set forward, unseen, on a node that two quorums share, can.
//   - A TTL is from 1 s to MaxTTL, a minute by default; a longer one is ErrInvalid.
//   - Tokens increase across all nodes, and across the loss of their data while their clocks do not step back.
//   - A node that hangs costs an operation min(50 ms, TTL/20) at most once a quorum has answered.
//   - Leases cost no goroutine or connection at rest, and a failed node one goroutine.
//
// # Failure modes
//
//   - A node that is new, or may have forgotten leases in a restart or flush, has no vote for MaxTTL; a new fleet grants
//     nothing for so long ([Backend.Bootstrap]). Servers with appendfsync always vote at once after a restart.
//   - A majority that loses its data at once ends its leases at their next renewal.
//   - Clients with different lists of nodes do not exclude each other. Nobody can tell them.
//   - Waiters poll and are served in no order. A waiter's first attempt fails if no quorum answers; later ones outlive an
//     outage of max(TTL, 10 s).
//   - While fewer than a quorum answer, an operation fails after the request timeout (read_timeout of the URL or
//     Options.Timeout, 2 s by default), and opening after 5 s.
//   - After a client's machine has slept, all nodes seem to have been set forward: it gets no lease for MaxTTL.
//
// # URLs
//
//	redis+redlock://[user:password@]h1[:6379],h2,h3[/db]      rediss+redlock:// with TLS
//	redis+redlock:?lock_node=redis%3A%2F%2Fh1&lock_node=…     nodes that differ in more than their host
//
//	lock_node=url          one more node, an escaped redis://, rediss:// or redis+unix:// URL; may be repeated
//	lock_max_ttl=1m        MaxTTL, the same for all clients of the fleet
//	lock_namespace=name    begins every key; default anylock
package redlock
