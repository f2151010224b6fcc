// Package zookeeper keeps locks in ZooKeeper 3.5 or newer: one server or an ensemble. It is tested with ZooKeeper 3.8.
//
// Import it for its URL scheme, or use [New] with the addresses of the servers. Applications use package lock on top.
//
// A key is a container node; its queue are ephemeral sequential nodes in it, and the first of them has the lease. An
// attempt that does not wait reads the queue first: a busy key costs one read, and no write if there is one server. A free key
// costs one create, with the look at the queue behind it in the same round trip; a new one the create of its container, too.
// A client that comes again to a key for which nobody else has asked since need not look: the number of its node tells. A waiter
// watches the node before its own, and no other; when it is told that this one is gone, and knows of no other before it, it is its turn.
// A release is one delete. A renewal is one write that changes nothing, many leases in one (RenewBatch).
//
// ZooKeeper knows no TTL, but the timeout of a session, which servers keep between two bounds: 2 and 20 ticks, 4 s and 40 s,
// unless they are configured otherwise. So leases of about the same TTL share a session whose timeout is a little longer;
// it is opened when it is first needed and closed when it was not used for a while. A renewal for a TTL of
// a longer class moves the node: deleted and created under the same name by one write of the other session, so that it keeps
// its place. It stays there when its TTL gets shorter. The TTL itself is kept by this process, which removes the node of a lease that
// nobody renews. If the process has died or hangs, the end of the session does.
//
// # Guarantees
//
//   - Exclusion is linearizable. A deadline never lies behind the instant until which the ensemble certainly keeps the
//     session, and that is known from writes alone: the answer to a ping may come from a server that was cut off from the
//     leader, or from a leader that was deposed. It counts from when the client was last heard of before the write, as far
//     as the leader must know it by then: servers report to the leader each half tick, and a whole tick is allowed for it.
//     This, and that clocks run at about the same speed, is all that is assumed of time.
//   - MinTTL, MaxSilence and MaxLate follow from what the servers negotiate, looked up at opening. With servers as they come
//     MinTTL is 1 s and MaxSilence 33 s. The shortest session is taken for two ticks, unless the longest one tells of longer
//     ticks, of 2 s at most: a server with minSessionTimeout below two ticks would be misjudged if these are longer than 2 s, or
//     if maxSessionTimeout is below 20 ticks, too.
//   - A TTL over MaxSilence is kept while the client is in contact with the ensemble. If that is lost for MaxSilence, the
//     lease is lost with it: its deadline is never further away than the ensemble is known to keep the session. Raise
//     maxSessionTimeout on the servers for a longer MaxSilence.
//   - MaxLate is the longest session, and two ticks more. It takes that long when a process dies just before the end of a
//     lease that it has not renewed: as long as it lives it keeps all leases of a session. The key of a process that
//     dies right after a renewal is free after the TTL and three ticks, up to seven for the longest; what counts is the
//     longest TTL that the lease has had. The parameter session_timeout makes MaxLate shorter, and MaxSilence with it.
//   - Tokens are the zxids of the nodes' creation, not their sequence numbers, which begin anew when the servers have removed
//     an empty container, and turn negative after 2^31 nodes.
//   - Waiters are served in the order in which their creates were committed, whichever server they are connected to. A
//     waiter sends a read now and then (5 to 10 s), in case that its watch got lost.
//   - Leases and waiters cost no goroutine of their own at rest, but those of the calls that wait. A session costs one
//     connection and four goroutines. Servers limit the connections of a host (maxClientCnxns, 60 by default).
//
// # Failure modes
//
//   - After a change of leader the ensemble counts every session anew: the key of a process that had died is free by a
//     session's timeout later.
//   - Data that a majority of the servers has lost, and a restored snapshot, take leases and the order of tokens with them.
//   - An operator who deletes the node of a lease ends it unasked. The holder is told at once, by a watch that is set by one read when
//     its lease has lived for 100 ms; a waiter whose node is deleted fails, or is told so when its lease has lived for as long.
//   - A waiter whose session has expired, after an outage longer than that, queues again at the end of the queue, for up
//     to max(TTL, 10 s) after the ensemble was heard of last. All other calls fail within twice Options.Timeout.
//   - A server that does not answer is left for another after a sixth of the session's timeout, from 500 ms to 4 s.
//   - Close leaves a session in which leases live to expire, so that their keys stay taken until then; those of waiters in it
//     are removed.
//   - When the connection breaks behind a create, its node is looked for by its name, and counts only if this session owns it.
//     What is not adopted is removed as soon as the ensemble answers again, or with the session.
//   - When a lease grows so short of time that the last sign of life is too old to vouch for the TTL, as on a machine that
//     stands still for a moment, a grant or renewal takes up to a tick longer.
//
// # URLs
//
//	zookeeper://[user:password@]host[:2181],…[/chroot][?session_timeout=10s]
//	zookeepers://[user:password@]host[:2281],…[/chroot][?cacert=/etc/zookeeper/ca.pem]
//
// The chroot is created if it is missing. A user is authenticated by the scheme digest, and then owns the nodes that are
// created: all rights for it, none for others, so that all clients of a lock need the same user. Without one, everybody has
// all rights. Parameters:
//
//	session_timeout=d      the longest session to ask for; by default as long as the servers grant
//	lock_namespace=name    the node below the chroot that has all locks; default anylock
//	cacert=file            with zookeepers, which is TLS: the authorities to trust, in PEM; by default this machine's
//	cert=file, key=file    with zookeepers: the client's certificate and its key, in PEM, for servers that want one
//
// Clients exclude each other if they have the same ensemble, chroot and namespace. A server is addressed by its secureClientPort
// for TLS. Read-only
// servers and observers may be in the list; an observer's clients depend on its link to the others alike.
package zookeeper
