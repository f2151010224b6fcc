// Package etcd keeps locks in etcd 3.4 or newer: one server or a cluster. It is tested with 3.4.23 and 3.7.
//
// Import it for its URL schemes, or use [New] with a client that the application owns. Applications use package lock
// on top.
//
// A lock is one key, whose value is its owner. The key is bound to an etcd lease that no other lock uses at the same
// time. etcd leases are granted in advance and reused. So an acquire is one transaction, which writes the owner's key
// if no other contender has one. A renewal is one message on a stream that stays open, and costs the cluster no write.
// A release is one delete. A waiter writes its key, too. The order in which the keys were created is the queue, and
// each waiter watches the key ahead of its own. This store does not use etcd's package concurrency: the locks of one of
// its sessions are lost together, and a Mutex's key remains on the server if a reply is lost.
//
// # Guarantees
//
//   - Exclusion is linearizable: the cluster agrees on every grant, and keeps each key at least until its holder's
//     deadline. For old servers, see Failure modes.
//   - A TTL is rounded up to whole seconds, and at least to the server's minimum: 1.5 times its election timeout, 2 s
//     by default. Each held lock has its own etcd lease, so its TTL does not depend on the client's other locks. If
//     locks shared etcd leases, there would be fewer, but a lock that is not renewed could live on with the others.
//   - etcd leases are granted for a second longer than the lock's TTL, so that a lease from the pool still covers the
//     lock. A lease that was idle for longer is renewed in the same round trip as the acquire. The leader searches for
//     expired leases every half second, and deletes them through Raft, which takes time on a busy server. So the key of
//     a dead holder is free at the latest 3 s after its TTL.
//   - The token is the revision at which the owner's key was created. The whole cluster has one revision counter, which
//     survives restarts and the loss of members. A renewal does not change the token.
//   - Waiters are served in the order in which their keys were created, which is the order of tokens. A release wakes
//     the next waiter and no other. Because servers have lost watch events, a waiter also reads the queue every 5 to
//     7.5 s.
//   - Leases and waiters need no goroutine of their own. A Backend has at most one stream for renewals and one for
//     watches.
//   - If somebody deletes a key or revokes its lease, the holder loses the lock at once, provided that it has held the
//     lock for more than 100 ms: from then on, its key is watched. When the watch breaks, the holder reads the key. It
//     repeats a failed read after 5 s. A renewal alone would not detect a deleted key.
//
// An acquire needs one more request, which grants an etcd lease, if it is the first with its TTL, if half of the TTL
// has passed since the last acquire with the same TTL, or if acquires are faster than grants of etcd leases. A renewal
// that changes the TTL needs two requests, because etcd cannot change the TTL of a lease: a grant, and a transaction
// that binds the key to the new lease. A lock with a TTL of more than 30 s that had to wait needs these two, too.
//
// A Resume binds the key to an etcd lease of the new client and revokes the old lease. It takes a read, a grant, a
// transaction and a revocation. If the earlier client still uses the lock, its next renewal moves the key back in the
// same way.
//
// # Shared leases
//
// The name of a contender for a shared lease begins with a letter that no other name begins with. A shared request
// succeeds if no exclusive contender, holder or waiter, has a key. An exclusive request succeeds if no contender has a
// key. Every shared lease has its own key, etcd lease and watch, so shared leases do not affect each other. A shared
// lease takes the same requests as an exclusive one.
//
//   - A waiting shared request watches the nearest exclusive contender ahead. When the last exclusive contender ahead
//     is gone, all shared requests behind it are granted, each after one read.
//   - A waiting exclusive request watches the nearest contender ahead of any kind. If others hold shared leases when
//     that contender's key is deleted, the request reads the queue and watches again. It does so once if the holders
//     release in the order of their tokens, and once per holder if they release in the opposite order.
//   - If an exclusive waiter gives up, the shared requests behind it are granted at once. If its process dies, they are
//     granted when its place expires: see Failure modes.
//   - If shared leases hold the key, a refused request makes one more request, which counts the leases for the
//     HeldError. The error names the first of them, without a TTL. Inspect reads the TTL of each shared lease in a
//     separate request, and returns the owner whose lease ends last.
//   - Tokens are revisions, so no two are equal.
//
// # Failure modes
//
//   - A new leader restarts the TTL of every lease at its election. So after a change of leader, or the restart of a
//     single server, the key of a dead holder may stay taken for longer than MaxLate says, by up to an election and a
//     whole TTL. Leases of live holders never end sooner because of it.
//   - A leader that continues after a pause longer than a lease's TTL believes for a moment that it still leads. It may
//     then revoke leases that its successor has renewed; 3.7.3 did so in one of ten trials. So a lock relies only on
//     renewals by the leader that granted its lease. At the first renewal after a change of leader, the lock's key
//     moves to a new lease, which the old leader does not know. The move costs one new lease per lock and one
//     transaction per 64 locks. The old leases are revoked one after the other.
//   - After a change of leader, all locks of a client must move before their deadlines: a lock that has not moved by
//     then is lost. 6000 locks with a TTL of 10 s moved within 4 s, on two processors that three members and other
//     programs shared. A client that holds many more locks needs a longer TTL.
//   - Old servers have bugs that weaken the guarantees. Before 3.4.31 and 3.5.13, including Debian's 3.4.23, a leader
//     does not even check whether it still leads (etcd issue 15247), so live leases may end. Before 3.4.38, 3.5.23 and
//     3.6.5, a server may confirm a renewal although it is ending the lease (pull request 20590). So a renewal does not
//     count if the lease may have expired before the reply; if somebody revokes the lease, the watch reports it. Before
//     3.4.42, 3.5.28 and 3.6.9, a read may be stale after a pause of a server (issue 20418). Then Inspect may return an
//     earlier holder, and a waiter, or a holder whose key was deleted, may notice one read later. Opening, by URL or by
//     [New], reads the servers' versions. If a server has such a flaw, EarlyLoss in the Guarantees names the version
//     and its flaws, and exclusion is best effort. Some versions report theirs only to users with the role root; others
//     then get the same weak guarantees. Opening fails if no server replies to the request for its version.
//   - Before 3.5, a leader uses its wall clock to find expired leases (issue 12291). While that clock is set back, the
//     keys of dead holders stay taken, as EnforcedBy says. No lease ends early.
//   - Before 3.4.36 and 3.5.18, watch events may never arrive (issues 17612, 18089, 19179). A waiter then detects its
//     turn by reading the queue, at most 7.5 s later.
//   - A waiter whose process was killed or is frozen keeps its place for its TTL, at most 30 s, plus MaxLate. The next
//     waiter may have to wait that long once its turn has come. A waiter that was disconnected for longer loses its
//     place and queues again at the end.
//   - If every address refuses the connection, opening fails at once and reports the reason. An error that matches
//     ErrUnavailable means that the servers could not be reached, or did not reply in time.
//   - While the cluster is down, queued waiters keep trying for max(TTL, 10 s) after their first failed request. A
//     request is given up after at most 1.25 times Options.Timeout, which is 5 s by default, plus 0.2 s. An attempt
//     without a reply is repeated after a quarter of Options.Timeout (sooner for a renewal), at another endpoint if the
//     client has several. So a frozen member delays some requests by that time, until the client closes its connection
//     13 s later. Until then, the watches on that member report nothing: a waiter detects its turn by reading the
//     queue, and a holder is notified of a deleted key when the connection is closed. If a lock is moving to another
//     etcd lease, its release waits for the move, which usually takes two requests.
//   - If a request gets no reply, its lease is revoked. The revocation deletes the key, and makes the request fail if
//     it arrives late.
//   - A cluster that is restored from a snapshot has lost the leases granted since then, and its revisions go back.
//     Tokens then no longer increase, unless the cluster is restored with --bump-revision and --mark-compacted.
//   - After a crash, the leases of the pool remain until they expire: one or two for each TTL in use, up to 64 after a
//     burst.
//   - Each held lease costs the leader memory and an entry in its heap. The leader expires at most about 1000 leases
//     per second, so if more expire at once, some are late.
//
// With authentication, a user needs only read and write permission on the namespace (the prefix "anylock/"). A Backend
// opened by URL logs in once for all its callers. It replaces a JWT after half of the token's lifetime. A request waits
// for a log-in only if the servers have rejected the token. A Backend on a client given to [New] makes that client log
// in at the same times. But servers of 3.4 reject a log-in that carries an expired token, and clientv3 sends it. So a
// client given to New fails permanently if its JWT expires while it cannot reach its servers or its process does not
// run.
//
// # etcd grpc-proxy
//
// A URL or a client may lead to "etcd grpc-proxy". Opening detects the proxy, and the Guarantees are those of the
// servers behind it. Only the costs differ:
//
//   - The proxy renews leases on its own schedule, so its reply to a renewal proves nothing, and it continues to renew
//     the leases of a frozen client. So nothing is renewed through a proxy. A renewal of a lock, or of a place in the
//     queue, binds the key to a new etcd lease instead. That takes a grant, a transaction (for up to 64 locks of a
//     batch), and the revocation of the old lease, which are writes for the cluster.
//   - If the proxy's server has lost its leader, the proxy does not report that. Waiters notice when they read the
//     queue, within 7.5 s.
//   - A proxy of 3.4 closes a connection if the client pings it while it is silent. So while a client has watches, it
//     also sends the proxy a read every 5 s, which the proxy answers by itself.
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
