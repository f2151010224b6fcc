// Package redlock keeps locks on a majority of independent Redis servers, 6.0 or newer, or Valkey.
//
// The number of servers is odd. A [Backend] grants a key when a quorum of them, more than half, has granted it.
// docs/redlock.md has the set-up, the proof of exclusion and of the order of tokens, their assumptions, and what breaks
// them.
//
// An acquire, a renewal and a release send one request to every node, all at once, and finish when a quorum has
// replied. An acquire sends a second request if the nodes' token counters differ. The whole conformance suite runs on
// three servers of Redis 7.0, and its core on five, and on a fleet of Redis 6.0, Redis 8.0 and Valkey 8.1.
//
// Import this package for its URL schemes, or call [New] with go-redis clients that the application owns. Applications
// use package lock on top.
//
// # Guarantees
//
//   - No crash, restart, lost data, hung server or network partition gives two owners the key. Exclusion is still only
//     best effort, because nodes end leases by their wall clocks. If the clock of a node that two quorums share is set
//     forward unnoticed, a second owner can get the key.
//   - TTLs are between 1 s and MaxTTL, a minute by default. A longer TTL is ErrInvalid.
//   - Tokens increase across all nodes, even if the nodes lose their data, as long as their clocks do not step back.
//   - Once a quorum has replied, a node that hangs delays an operation by at most min(50 ms, TTL/20). An operation that
//     cannot succeed without that node waits for Options.Timeout, or TTL/4 if that is less, the first time.
//   - A held lease needs no goroutine and no connection of its own. A failed node needs one goroutine.
//
// # Failure modes
//
//   - A node that is new, or may have forgotten leases in a restart or flush, has no vote for MaxTTL; a new fleet
//     grants nothing for that long (see [Backend.Bootstrap]). Servers with appendfsync always vote at once after a
//     restart.
//   - If a majority loses its data at the same time, its leases end at their next renewal.
//   - Clients with different lists of nodes do not exclude each other. Nothing can detect that.
//   - Waiters poll, and are served in no order. If no quorum replies, a waiter's first attempt fails, after about 5 s
//     if nodes hang. Later attempts survive an outage of max(TTL, 10 s).
//   - While no quorum replies, an operation that does not wait fails after the request timeout (timeout of the URL or
//     Options.Timeout, 2 s by default). Opening and List fail after 5 s. Examine waits for the request timeout, and
//     reports the nodes that do not reply.
//   - After a client's machine has slept, the clocks of all nodes seem to have been set forward. The client then gets
//     no lease for MaxTTL.
//
// # URLs
//
//	redis+redlock://[user:password@]h1[:6379],h2,h3[/db]      rediss+redlock:// with TLS
//	redis+redlock:?lock_node=redis%3A%2F%2Fh1&lock_node=…     nodes that differ in more than the host
//
//	lock_node=url          another node, an escaped redis://, rediss:// or redis+unix:// URL; may be repeated
//	lock_max_ttl=1m        MaxTTL, the same for all clients of the fleet
//	timeout=duration       time limit for one request to a node; default 2s
//	lock_namespace=name    prefix of every key, for access control lists; default anylock
//	cacert=file            with TLS: the authorities to trust, in PEM; by default this machine's
//	cert=file, key=file    with TLS: the client's certificate and its key, in PEM, for servers that require one
//
// The user, the password, the path, TLS and the parameters of go-redis are for the hosts of the URL. Each lock_node URL
// has its own.
package redlock
