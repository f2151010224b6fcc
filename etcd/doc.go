// Package etcd keeps locks in etcd 3.4 or newer: one server or a cluster. It is tested with 3.4.23 and 3.7.
//
// Import it for its URL schemes, or use [New] with a client that the application owns. Applications use package lock on
// top.
//
// A lock is one key, whose value is its owner, bound to a lease of etcd's that no other lock uses at that time. Leases are granted ahead and used
// again, so that an acquire is one transaction that writes the owner's key if nobody has one for the lock; a renewal is
// one message on a stream that stays open, which costs the cluster no write; a release is one delete. Whoever has to wait
// writes its key too: the queue is the order in which the keys were created, and each waiter watches the key before its
// own. It is not package concurrency: a Mutex of that belongs to a session, whose leases are lost together, and leaves its
// key behind when an answer is lost.
//
// # Guarantees
//
//   - Exclusion is linearizable: the cluster agrees on every grant, and no deadline goes beyond what the cluster keeps. See
//     Failure modes for old servers.
//   - A TTL is whole seconds, at least what the server grants: 1.5 times its election timeout, 2 s by default. Each lock's
//     TTL is its own, whatever happens to the client's other locks: that is worth a lease per held lock. Sharing leases
//     would save some of them, but then a lock that is not renewed could live on with the others.
//   - Leases are granted for a second longer than the lock's TTL, so that one that has waited in the pool still covers
//     it. One that has waited for longer is renewed while the key is asked for, in the same round trip. With the half
//     second between the leader's looks at its leases, and time for their deletion through Raft on a busy server, the key of
//     a dead holder is free 3 s after its TTL at the latest.
//   - The token is the revision at which the owner's key was created: one counter for the whole cluster, which survives
//     restarts and the loss of members. It does not change with renewal.
//   - Waiters are served in the order in which their keys were created, which is the order of tokens. A release wakes the
//     next one and no other. A waiter sends a read every 5 to 7.5 s, because servers have lost watch events.
//   - Leases and waiters cost no goroutine of their own. A Backend has at most a stream that renews and one that watches.
//   - A key that somebody deletes, or whose lease somebody revokes, is lost to its holder at once, if it has held the lock
//     for more than a moment (100 ms): then its key is watched. A renewal alone would not notice a deleted key.
//
// The first lock of a TTL, the first after a minute without one, and locks taken faster than leases are granted, need one
// more request, for a lease. A renewal that changes the TTL needs one or two, as etcd cannot change that of a lease: a
// transaction binds the key to another one. A lock with a TTL of more than 30 s that had to wait is granted by a write instead of a
// read.
//
// # Failure modes
//
//   - A new leader gives every lease its full TTL again, from its election on: after a change of leader, and after the
//     restart of a single server, the key of a dead holder may stay taken for up to an election and a whole TTL longer than
//     MaxLate says. Leases of live holders never end sooner for it.
//   - A leader that was paused for longer than a lease's TTL, and goes on, believes for a moment that it still leads. It may
//     then revoke leases that its successor has renewed; 3.7.3 was seen to do it, in one of ten trials. So a lock counts on
//     no renewal by another leader than the one that granted its lease: with the first renewal after a change of leader its
//     key changes to a new lease, which the old leader does not know. That costs a new lease per lock and a transaction for
//     each 64, once. The leases that are left empty are revoked one after the other.
//   - All locks of a client must change within their TTL, less what had passed when the leader changed. 6000 locks with a TTL
//     of 10 s did so within 4 s, on two processors that three members and other programs shared. A client that holds many
//     more needs a longer TTL: what has not changed by its deadline is lost.
//   - Old servers have flaws that matter. Before 3.4.31 and 3.5.13, Debian's 3.4.23 among them, a leader does not even look
//     whether it still leads (etcd issue 15247), so that live leases may end. Before 3.4.38, 3.5.23 and 3.6.5 a renewal may be
//     answered although the lease is being ended (pull request 20590): a renewal therefore does not count when the lease may have
//     run out before its answer; one that somebody revokes is told by its watch. Before 3.4.42, 3.5.28 and 3.6.9 a read may be old after
//     a pause of a server (issue 20418): Inspect may then tell of an earlier holder, and a waiter or a holder whose key was deleted
//     may learn it a look later. A Backend opened by URL asks its servers for their version. Where one has such a flaw,
//     EarlyLoss in the Guarantees names the version and its flaws, and exclusion is best effort; [New] does not ask.
//   - Before 3.5 a leader looks for leases that have run out by its wall clock (issue 12291): while it is set back, keys of dead holders
//     stay taken, as EnforcedBy says. None ends early.
//   - Watch events that never arrive are known before 3.4.36 and 3.5.18 (issues 17612, 18089, 19179): a waiter then finds
//     out by its look, 7.5 s later at the most.
//   - A waiter whose process was killed or is frozen keeps its place for its TTL, 30 s at most, and MaxLate; so long the next
//     one may wait once its turn has come. A waiter that was cut off for longer has lost its place, and queues again at the
//     end.
//   - Opening fails at once, with the reason, where every address refuses. Errors that match ErrUnavailable say that the
//     servers could not be asked, or did not answer in the time that they have.
//   - While the cluster is away, waiters that have queued go on trying for max(TTL, 10 s); all other requests are given up
//     after Options.Timeout, 5 s by default, and the quarter of it that the last attempt may take. An attempt without an
//     answer is repeated after a quarter of it, one of a renewal sooner, at another endpoint if the client has several. A
//     frozen member so costs some requests that time until its connection is given up, 13 s later.
//   - What was asked without an answer is cleaned up by revoking its lease: that ends its key, and whatever the request would
//     still do when it arrives late.
//   - A cluster that is restored from a snapshot has lost the leases since, and goes back in its revisions: tokens no longer
//     increase, unless it is restored with --bump-revision and --mark-compacted.
//   - A crash leaves the leases of the pool, one or two for each TTL in use, until they expire.
//   - Each lease that is held costs the leader memory and a look at its heap; expiry is limited to some 1000 a second, so that
//     the end of more than that at once is late.
//
// With authentication a user needs read and write on the namespace (the prefix "anylock/"), nothing else. Log-ins that run out are made
// anew. Servers of 3.4 refuse that to clients which still send the old one, as clientv3 does: a client given to [New] then fails for ever
// once its JWT has expired, while a Backend opened by URL logs in without it.
//
// # URLs
//
//	etcd://[user:password@]host[:2379],…[/namespace]
//	etcds://[user:password@]host[:2379],…[/namespace][?cacert=file&cert=file&key=file]      with TLS
//
// The namespace begins every key; default anylock. With TLS, cacert is the authority to trust instead of the system's, cert
// and key are the client's own. Clients exclude each other if they reach the same cluster with the same namespace. There
// are no parameters of our own. List all members: the URL is all the client knows of the cluster.
package etcd
