// Package etcd keeps locks in etcd 3.4 or newer: one server or a cluster. It is tested with 3.4.23 and 3.7.
//
// Import it for its URL schemes, or use [New] with a client that the application owns. Applications use package lock
// on top.
//
// A lock is one key, whose value is its owner. The key is bound to an etcd lease that no other lock uses at the same
// time. etcd leases are granted ahead and reused. So an acquire is one transaction, which writes the owner's key if
// nobody has one for the lock. A renewal is one message on a stream that stays open, and costs the cluster no write.
// A release is one delete. A waiter writes its key too: the queue is the order in which the keys were created, and
// each waiter watches the key before its own. This store does not use package concurrency: a Mutex of that package
// belongs to a session, whose locks are lost together, and its key remains on the server when an answer is lost.
//
// # Guarantees
//
//   - Exclusion is linearizable: the cluster agrees on every grant, and no deadline goes beyond what the cluster
//     keeps. See Failure modes for old servers.
//   - A TTL is whole seconds, at least what the server grants: 1.5 times its election timeout, 2 s by default. Each
//     lock has its own TTL, whatever happens to the client's other locks, because each held lock has its own etcd
//     lease. Sharing leases would save some of them, but then a lock that is not renewed could live on with the
//     others.
//   - etcd leases are granted for a second longer than the lock's TTL, so that a lease from the pool still covers the
//     lock. A lease that was idle for longer is renewed in the same round trip as the acquire. The leader searches
//     for expired leases every half second, and their deletion through Raft takes time on a busy server, so the key
//     of a dead holder is free 3 s after its TTL at the latest.
//   - The token is the revision at which the owner's key was created: one counter for the whole cluster, which
//     survives restarts and the loss of members. It does not change with renewal.
//   - Waiters are served in the order in which their keys were created, which is the order of tokens. A release wakes
//     the next one and no other. A waiter sends a read every 5 to 7.5 s, because servers have lost watch events.
//   - Leases and waiters cost no goroutine of their own. A Backend has at most one stream that renews and one that
//     watches.
//   - If somebody deletes a key or revokes its lease, the holder loses it at once, provided that it has held the lock
//     for more than 100 ms: from then on its key is watched. When the watch breaks, the holder reads the key, and
//     again 5 s after a read that fails. A renewal alone would not notice a deleted key.
//
// The first lock of a TTL, the first after half that TTL without one, and locks taken faster than leases are granted,
// need one more request, for a lease. A renewal that changes the TTL needs one or two, as etcd cannot change that of
// a lease: a transaction binds the key to another one. A lock with a TTL of more than 30 s that had to wait needs
// that transaction, too.
//
// A Resume binds the key to an etcd lease of the new client, and revokes the old one: a read, a grant if the pool is
// empty, a transaction and a revocation. If the earlier client still uses the lock, its next renewal does the same.
//
// # Shared leases
//
// The name of a contender for a shared lease begins with a letter that no other name begins with. A shared request
// succeeds if no exclusive contender has a key, as holder or waiter; an exclusive request, if nobody has one. Every
// shared lease has its own key, etcd lease and watch: what happens to one changes nothing about another. Its requests
// are those of an exclusive lease.
//
//   - A waiting shared request watches the nearest exclusive contender ahead. When that key is gone, all shared
//     requests behind it enter, each after one read.
//   - A waiting exclusive request watches the nearest contender ahead of any kind. If others hold shared leases when
//     that key is gone, it reads and watches once more. That is one round if the holders release in the order of their
//     tokens, and one for each holder if they release in the opposite order.
//   - Shared requests behind an exclusive waiter enter at once if it gives up. If its process dies, they enter when its
//     place ends: see Failure modes.
//   - A request that meets shared leases makes one more request, which counts them for the HeldError. The error names
//     the first of them, without a TTL. Inspect reads the TTL of each shared lease, in one request for each, and
//     returns the owner whose lease ends last.
//   - Tokens are revisions, so no two are equal.
//
// # Failure modes
//
//   - A new leader gives every lease its full TTL again, from its election on. After a change of leader, and after
//     the restart of a single server, the key of a dead holder may stay taken for up to an election and a whole TTL
//     longer than MaxLate says. Leases of live holders never end sooner because of it.
//   - A leader that continues after a pause longer than a lease's TTL believes for a moment that it still leads. It
//     may then revoke leases that its successor has renewed; 3.7.3 was seen to do so in one of ten trials. So a lock
//     relies only on renewals by the leader that granted its lease. With the first renewal after a change of leader,
//     its key moves to a new lease, which the old leader does not know. That costs, once, a new lease per lock and a
//     transaction for each 64. The old leases are revoked one after the other.
//   - All locks of a client must move within their TTL, minus the time that had passed when the leader changed. 6000
//     locks with a TTL of 10 s did so within 4 s, on two processors that three members and other programs shared. A
//     client that holds many more needs a longer TTL: a lock that has not moved by its deadline is lost.
//   - Old servers have flaws that matter. Before 3.4.31 and 3.5.13, including Debian's 3.4.23, a leader does not even
//     check whether it still leads (etcd issue 15247), so live leases may end. Before 3.4.38, 3.5.23 and 3.6.5 a
//     renewal may be confirmed although the lease is being ended (pull request 20590). A renewal therefore does not
//     count if the lease may have run out before its answer; the watch reports a lease that somebody revokes. Before
//     3.4.42, 3.5.28 and 3.6.9 a read may be old after a pause of a server (issue 20418). Then Inspect may return an
//     earlier holder, and a waiter or a holder whose key was deleted may notice one read later. Opening, by URL or by
//     [New], reads the servers' versions. If one has such a flaw, EarlyLoss in the Guarantees names the version and
//     its flaws, and exclusion is best effort. Opening fails if no server reports its version.
//   - Before 3.5 a leader uses its wall clock to find expired leases (issue 12291). While that clock is set back,
//     keys of dead holders stay taken, as EnforcedBy says. No lease ends early.
//   - Before 3.4.36 and 3.5.18 watch events may never arrive (issues 17612, 18089, 19179). A waiter then finds out by
//     reading, at most 7.5 s later.
//   - A waiter whose process was killed or is frozen keeps its place for its TTL, 30 s at most, and MaxLate. The next
//     waiter may have to wait that long once its turn has come. A waiter that was cut off for longer has lost its
//     place, and queues again at the end.
//   - Opening fails at once, with the reason, if every address refuses. Errors that match ErrUnavailable mean that
//     the servers could not be reached, or did not answer in time.
//   - While the cluster is down, waiters that have queued keep trying for max(TTL, 10 s) after their first request
//     has failed. All requests are given up after 1.25 times Options.Timeout, 5 s by default, and 0.2 s at most. An
//     attempt without an answer is repeated after a quarter of it, for a renewal sooner, at another endpoint if the
//     client has several. So a frozen member delays some requests by that much until its connection is given up, 13 s
//     later. A release of a lock that is moving to another etcd lease waits for the move, as a rule for two requests.
//   - A request without an answer is cleaned up by revoking its lease. That ends its key, and any effect that the
//     request would still have if it arrives late.
//   - A cluster that is restored from a snapshot has lost the leases since then, and its revisions go back: tokens no
//     longer increase, unless it is restored with --bump-revision and --mark-compacted.
//   - After a crash the leases of the pool, one or two for each TTL in use, after a burst up to 64, remain until they
//     expire.
//   - Each held lease costs the leader memory and an entry in its heap. Expiry is limited to some 1000 leases a
//     second, so if more than that expire at once, some are late.
//
// With authentication a user needs read and write on the namespace (the prefix "anylock/"), nothing else. A Backend
// opened by URL logs in once for all its callers. It replaces a JWT when half of the token's lifetime has passed; a
// request waits for a log-in only if the servers have rejected the token. A Backend on a client given to [New] makes
// that client log in at the same times. But servers of 3.4 reject a log-in that carries an expired token, as clientv3
// sends it. So a client given to New fails permanently if it cannot reach its servers while its JWT expires, or if
// its process does not run then.
//
// # etcd grpc-proxy
//
// A URL or a client may lead to "etcd grpc-proxy". Opening recognizes the proxy, and the Guarantees are those of the
// servers behind it. The differences are in cost:
//
//   - The proxy answers renewals on its own schedule, so that an answer proves nothing, and it continues to renew
//     the leases of a frozen client. So nothing is renewed through a proxy. A renewal, also that of a place in the queue,
//     binds the key to a new etcd lease: a grant, a transaction (for up to 64 locks of a batch), and the revocation
//     of the old lease, which are writes for the cluster.
//   - The proxy numbers watches itself. They are created one after the other, so after a break of the stream to the
//     proxy a thousand locks are watched again after a thousand round trips. Waiters and holders read their keys at
//     the same time, so that they miss nothing.
//   - If the proxy's server has lost its leader, the proxy does not report that. Waiters notice by their reads,
//     within 7.5 s.
//
// # URLs
//
//	etcd://[user:password@]host[:2379],…[/namespace]      etcds:// with TLS
//
// The namespace is the prefix of every key; default anylock. Clients exclude each other if they reach the same
// cluster with the same namespace. List all members: the client knows only the members in the URL. Parameters:
//
//	timeout=duration       time limit for one request with its repetitions; default 5s
//	cacert=file            with TLS: the authorities to trust, in PEM; by default this machine's
//	cert=file, key=file    with TLS: the client's certificate and its key, in PEM, for servers that require one
package etcd
