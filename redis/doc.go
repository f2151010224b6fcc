// Package redis keeps locks in Redis 5 or newer, or Valkey: one server, a master with Sentinels, or a Cluster; and, as
// [Redlock], on a majority of independent servers. What follows is about [Backend]; the last section is about Redlock.
//
// The whole suite runs on Redis 6.0, 7.0 and 8.0 and on Valkey 8.1, and on a Redlock of a Redis 6.0, a Redis 8.0 and a Valkey 8.1. Redis 5 and
// 6.2 should work, but no Debian that is still served has a package of them to test with.
//
// Import it for its URL schemes, or use [New] with a go-redis client that the application owns. Applications use package
// lock on top.
//
// A lock is one Redis key with an expiry. An acquire (with its fencing token), a renewal and a release are one request
// each, all Lua scripts that answer the same when they are sent again. A refused Acquire that waits takes a place in the
// key's queue within the same request. A release reserves the key for the first in the queue, for 500 ms, and tells its
// process, and no other, by pub/sub. Many leases are renewed in few requests (RenewBatch).
//
// Requests of one Backend that come while others are under way travel together, in pipelines on a few connections. One
// whose answer does not come holds up none that come later, and a caller who goes takes none along. A request that comes
// alone goes at once; a Backend opened by a redis:// URL keeps a connection for these. In a Cluster each request goes
// by itself.
//
// # Guarantees
//
//   - Exclusion is best effort: it holds as long as the server keeps the key. See Failure modes.
//   - A TTL is enforced by the server's wall clock, to 1 ms; the least is 100 ms. A step of that clock moves the end of every lease: forward
//     it may end live ones, back it keeps the keys of dead holders for longer. The clocks of clients do not matter.
//   - Tokens are max(last + 1, server time in µs), from one counter per cluster slot. They increase across release,
//     expiry, restart and failover, even when the counter is lost, while the server's clock does not step back past the
//     last grant. A counter expires a day after the clock has passed it, so unused ones go away.
//   - Waiters are served in the order in which their requests reached the server. A waiter sends nothing while it waits,
//     but for one request when the key would expire, or after 5 s. An Acquire that does not wait never passes those who
//     do: it is refused while the key is reserved, and on a free key with a queue it wakes the queue instead.
//   - With 64 processes on one key a hand-off takes at most 20 commands of the server, with those within scripts.
//   - Leases and waiters cost no goroutine or connection of their own at rest. A Backend has one subscription, made when
//     it first has to wait.
//
// # Failure modes
//
//   - Replication is asynchronous: a failover can lose a grant that was acknowledged, and then two owners hold the key
//     until the first one's next renewal tells it. MinReplicas makes that unlikely, at the price of waiting for replicas
//     at every grant and renewal. It is no quorum: Sentinel may promote a replica that had not received the grant. Pass
//     the token to what the lock protects, and let that refuse older ones.
//   - A master that is cut off from its replicas, and that Sentinel or the Cluster has replaced, goes on granting and
//     renewing for the clients on its side: two owners hold the key, and renew it, for as long as the partition lasts. Set
//     min-replicas-to-write on every master that has replicas, or MinReplicas here: then the old master refuses. Guarantees
//     tells of a master with replicas where min-replicas-to-write is not set.
//   - A server that restarts without its latest writes (no AOF, or appendfsync not always) has lost the leases in them;
//     so has one that evicts keys (opening looks at maxmemory-policy), was flushed, or whose clock jumped forward.
//   - The holder of a lost lease learns of it at its next renewal, or at its deadline.
//   - A server that is full (maxmemory with noeviction) goes on renewing, releasing and granting: leases are small.
//   - A waiter whose process was killed or is frozen delays the next one by its reservation, 500 ms, and so does each of
//     several that are frozen at once. Who has released the key makes sure of it; if its process dies without Close in that time, and the
//     next two waiters are frozen, the one behind them may wait up to 5 s more. When in a Cluster three processes that follow each other in a queue die together, the next may wait up to 5 s more, because
//     a Cluster's server does not know which of them still listen.
//   - A waiter that misses its reservation, paused for more than 500 ms, queues again at the end. A server that lost its
//     data has lost its queues too; waiters queue again, in any order.
//   - While the server is away, waiters that have queued go on trying for max(TTL, 10 s); all other calls fail within
//     the request timeout (read_timeout of the URL or Options.Timeout, 2 s by default).
//   - An Acquire whose context ends in the middle of a request waits up to 100 ms for the answer, to leave nothing
//     behind. If none comes, the key may be held by nobody until a clean-up in the background, or at last the TTL,
//     frees it.
//   - go-redis does not repeat these requests by itself, whatever MaxRetries says; the Backend does, and cleans up.
//   - While a Cluster moves a slot, renewals go on; other requests for its keys are repeated until the slot has arrived, or until the
//     request timeout: then Acquire fails with ErrUnavailable, and a release goes on in the background. With MinReplicas, what
//     has moved cannot be renewed before the slot has arrived.
//   - Opening by a URL has the server try every command that the scripts run. It fails with ErrUnsupported, and their names, if the
//     server lacks or forbids any. New makes no request: there the first use that needs such a command fails.
//   - Client libraries talk: go-redis writes its reconnects to standard error unless redis.SetLogger says otherwise.
//
// In a Cluster the messages are ordinary PUBLISH, which the cluster's bus sends to every node, not SPUBLISH: sharded
// channels would need a subscription on every node for every slot with waiters, and to follow slots that move. There is
// one message (and one or two to deputies) per contended hand-off, and none for an uncontended release.
//
// # Access control
//
// An ACL user needs exactly this:
//
//	~anylock:* &anylock:inbox:*
//	+del +eval +evalsha +get +incr +info +mget +pexpire +ping +pttl +publish +set +subscribe +time
//	+zadd +zcard +zpopmin +zrange +zrem
//
// It needs +select besides for a database other than 0, +cluster|slots in a Cluster, +wait for MinReplicas, and +scan for List. Another namespace
// takes the place of anylock. Redis 6.0 knows no rights of channels: leave &anylock:inbox:* out. Without +info opening cannot tell about eviction. A user without the channels, or +subscribe, can
// lock, and is refused when it has to wait.
//
// # URLs
//
//	redis://[user:password@]host[:6379][/db]      rediss:// with TLS
//	redis+unix://[user:password@]/path[?db=n]
//	redis+sentinel://[user:password@]host[:26379],…/master-name[/db]      rediss+sentinel:// with TLS
//	redis+cluster://[user:password@]host[:6379],…      rediss+cluster:// with TLS
//
// The user is the data nodes'; Sentinels get sentinel_username and sentinel_password. Other parameters are go-redis'
// (read_timeout, pool_size, …), but those that would read from replicas are refused. With TLS each server is verified by
// the name or address that is dialled. Our own parameters:
//
//	lock_min_replicas=n    replicas that must have a grant or renewal before it counts (WAIT); default 0
//	lock_namespace=name    begins every key and channel; default anylock
//
// Clients exclude each other if they reach the same database with the same namespace. A redis.Ring is refused: it moves
// keys to other servers when one is down.
//
// # Redlock
//
// A [Redlock] grants a key when a quorum of an odd number of independent servers, more than half of them, has granted it.
// docs/redlock.md has the set-up, the proof of exclusion and of the order of tokens, their assumptions, and what breaks
// them. An acquire, a renewal and a release are one request each to every node, all sent at once, and end at the quorum; an
// acquire takes a second one when the nodes' counters for tokens differ.
//
// Its guarantees:
//
//   - No crash, restart, lost data, hung server or cut network lets two owners in. Exclusion is best effort nevertheless,
//     because nodes end leases by their wall clocks: one that is set forward, unseen, on a node that two quorums share, can.
//   - A TTL is from 1 s to MaxTTL, a minute by default; a longer one is ErrInvalid.
//   - Tokens increase across all nodes, and across the loss of their data while their clocks do not step back.
//   - A node that hangs costs an operation min(50 ms, TTL/20) at most once a quorum has answered.
//   - Leases cost no goroutine or connection at rest, and a failed node one goroutine.
//
// Its failure modes:
//
//   - A node that is new, or may have forgotten leases in a restart or flush, has no vote for MaxTTL; a new fleet grants
//     nothing for so long ([Redlock.Bootstrap]). Servers with appendfsync always vote at once after a restart.
//   - A majority that loses its data at once ends its leases at their next renewal.
//   - Clients with different lists of nodes do not exclude each other. Nobody can tell them.
//   - Waiters poll and are served in no order. A waiter's first attempt fails if no quorum answers; later ones outlive an
//     outage of max(TTL, 10 s).
//   - While fewer than a quorum answer, an operation fails after the request timeout (read_timeout of the URL or
//     RedlockOptions.Timeout, 2 s by default), and opening after 5 s.
//   - After a client's machine has slept, all nodes seem to have been set forward: it gets no lease for MaxTTL.
//
// Its URLs:
//
//	redis+redlock://[user:password@]h1[:6379],h2,h3[/db]      rediss+redlock:// with TLS
//	redis+redlock:?lock_node=redis%3A%2F%2Fh1&lock_node=…     nodes that differ in more than their host
//
//	lock_node=url          one more node, an escaped redis://, rediss:// or redis+unix:// URL; may be repeated
//	lock_max_ttl=1m        MaxTTL, the same for all clients of the fleet
//	lock_namespace=name    begins every key; default anylock
package redis
