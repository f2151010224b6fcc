// Package zookeeper keeps locks in ZooKeeper 3.5.1 or newer: one server or an ensemble. It is tested with ZooKeeper
// 3.8.
//
// Import it for its URL scheme, or use [New] with the addresses of the servers. Applications use package lock on top.
//
// A key is a container node. Its queue consists of ephemeral sequential nodes in the container, and the first node
// has the lease. An attempt that does not wait reads the queue first: a busy key costs one read, and no write if
// there is one server. A free key costs one create, which carries a read of the queue in the same round trip; a new
// key also costs the create of its container. A waiter watches only the node in front of its own. If that node is
// deleted and the waiter knows of no other node in front, the waiter is first. A release is one delete. A renewal is
// one write that changes nothing, for many leases at once (RenewBatch).
//
// ZooKeeper has no TTLs, only session timeouts, which servers keep between two limits. These are 2 and 20 ticks by
// default, which is 4 s and 40 s. So leases with about the same TTL share a session whose timeout is a little longer. A
// session is opened when it is first needed, and closed when it has not been used for a while. A renewal for a TTL of a
// longer class moves the node to that session: one write deletes the node and creates it under the same name, so that
// it keeps its place. When the TTL gets shorter, the node does not move. This process enforces the TTL itself, and
// deletes the node of a lease that is not renewed. If the process has died or hangs, the end of the session deletes the
// node.
//
// # Shared leases
//
// The mode of a request is in the name of its node. A shared request waits only for the exclusive nodes in front of its
// own: it watches the nearest one, so the end of a reader wakes no other reader, and all readers behind one writer
// enter together. An exclusive request waits for all nodes in front of its own. Each reader has its own node, TTL and
// deadline, and costs as many requests as an exclusive lease; its two reads of the queue grow with the number of
// readers. A writer behind n readers may be woken up to n times, and reads the queue each time.
//
// The place of a writer whose process has died keeps new readers out until its session ends, as late as a dead holder's
// key becomes free (MaxLate). Inspect does not know which of several readers ends last, so it reports the last in the
// queue.
//
// # Guarantees
//
//   - Exclusion is linearizable. A deadline is never later than the time until which the ensemble certainly keeps the
//     session. Only writes prove that time, because a ping may be answered by a server that was cut off from the
//     leader, or by a leader that was deposed. The time counts from the last sign of life that the leader must have
//     received before the write. Servers report signs of life to the leader each half tick, and a whole tick is allowed
//     for that. Nothing else is assumed about time, except that clocks run at about the same speed.
//   - MinTTL, MaxSilence and MaxLate follow from what the servers negotiate at opening. With default settings MinTTL is
//     1 s and MaxSilence 33 s. The shortest session is assumed to be two ticks, unless the longest session implies
//     longer ticks, of 2 s at most. A server with minSessionTimeout below two ticks is misjudged if its ticks are
//     longer than 2 s, or if its maxSessionTimeout is also below 20 ticks.
//   - A TTL over MaxSilence is kept while the client is in contact with the ensemble. Without contact for MaxSilence,
//     the lease is lost: its deadline is never further away than the ensemble is known to keep the session. Raise
//     maxSessionTimeout on the servers for a longer MaxSilence.
//   - MaxLate is the longest session plus one and a half ticks and 250 ms. A key becomes free that late if its process
//     dies just before the end of a lease that it has not renewed: while the process lives, it keeps all leases of a
//     session alive. If a process dies right after a renewal, its key is free after the TTL and three ticks, or up to
//     seven ticks for the longest TTLs. The longest TTL that the lease has had counts. The parameter session_timeout
//     shortens MaxLate, and MaxSilence with it.
//   - Tokens are the zxids of the nodes' creation, not their sequence numbers, which start again when the servers have
//     removed an empty container.
//   - The last of a container's 2^31 sequence numbers give no order. A key that has used up the other numbers remains
//     usable: readers enter without order while there is no exclusive request. An exclusive request waits until the
//     queue is empty, and deletes the container, so that numbers start again. Clients that wait at that moment are
//     served in any order.
//   - Waiters are served in the order in which their creates were committed, whichever server they are connected to. A
//     waiter reads the queue from time to time (5 to 10 s), in case its watch got lost.
//   - Idle leases and waiters cost no goroutine of their own, except those of the calls that wait. A session costs one
//     connection and five goroutines. Servers limit the connections per host (maxClientCnxns, 60 by default).
//
// # Failure modes
//
//   - After a change of leader every session's timeout starts again. So the key of a dead process may be free up to a
//     session timeout later.
//   - If a majority of the servers loses its data, or a snapshot is restored, leases and the order of tokens are lost.
//   - An operator who deletes the node of a lease ends the lease. The holder is notified at once, by a watch that a
//     read sets when its lease has lived for 100 ms. A waiter whose node is deleted fails when it next reads the
//     queue; if it is granted the key first, it is notified as a holder.
//   - A waiter whose session has expired after a long outage queues again at the end of the queue. It outlives an
//     outage for max(TTL, 10 s), from its first failed request on. All other calls fail within twice Options.Timeout.
//   - If a server does not answer, the client switches to another after a sixth of the session's timeout, from 500 ms
//     to 4 s, or up to twice that.
//   - Close lets a session with live leases expire, so that their keys stay taken until then. The nodes of waiters in
//     the session are deleted.
//   - If the connection breaks after a create was sent, the client searches for the node by its name, and deletes it,
//     before it sends another create. The node of an attempt that fails is deleted as soon as the ensemble answers
//     again, or with the session.
//   - If the last sign of life is too old to cover a lease's TTL, for example on a machine that stood still for a
//     moment, a grant or renewal takes up to a tick longer.
//
// # URLs
//
//	zookeeper://[user:password@]host[:2181],…[/chroot]
//	zookeepers://[user:password@]host[:2281],…[/chroot]      with TLS
//
// The chroot is created if it is missing. A user is authenticated by the scheme digest and owns the nodes that it
// creates: it has all rights and others have none, so all clients of a lock need the same user. Without a user,
// everybody has all rights. Parameters:
//
//	session_timeout=duration
//	                       the longest session to request; by default as long as the servers grant. It is refused if it
//	                       and the servers' shortest are both below one and a half ticks plus 100 ms
//	timeout=duration       time limit for each request; default 2s
//	cacert=file            with TLS: the authorities to trust, in PEM; by default this machine's
//	cert=file, key=file    with TLS: the client's certificate and its key, in PEM, for servers that require one
//
// Clients exclude each other if they use the same ensemble and chroot. For TLS, use the secureClientPort of the
// servers. Read-only servers and observers may be in the list. Clients of an observer also depend on its connection to
// the other servers.
package zookeeper
