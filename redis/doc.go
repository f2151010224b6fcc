// Package redis keeps locks in Redis 6.0 or newer, or Valkey: one server, a master with Sentinels, or a Cluster.
// Package redis/redlock keeps them on a majority of independent servers.
//
// The whole conformance suite runs on Redis 7.0, and its core on Redis 6.0 and 8.0 and on Valkey 8.1. Redis 6.2 is not
// tested, because Debian's mirrors have no package of it.
//
// Import this package for its URL schemes, or use [New] with a go-redis client that the application owns. Applications
// use package lock on top.
//
// A lock is one Redis key with an expiry. An acquire (with its fencing token), a renewal and a release are one request
// each: a Lua script that is safe to repeat. If the key is taken, the same request queues a waiter, once the Backend
// has its subscription. A release reserves the key for the first waiter for 500 ms, and notifies only that waiter's
// process, by pub/sub. RenewBatch renews many leases in few requests.
//
// Concurrent requests of one Backend share pipelines on a few connections. A request without a reply does not delay
// later requests, and a caller that stops waiting cancels no other request. A lone request is sent at once; a Backend
// that was opened by the URL of one server keeps a connection for lone requests. In a Cluster each request is sent
// separately.
//
// # Shared leases
//
// The readers of a key are a sorted set in place of the lock's value. A reader's score is its expiry, and the key
// expires with its last reader. So any number of readers needs only one key, and exclusive leases cost nothing more. An
// acquire, a renewal and a release of a shared lease are one request each, too. They cost 1.5 to 2 times the server
// time of exclusive ones, whatever the number of readers. A release admits all shared waiters at the front of the queue
// at once: it notifies each of them, and reserves its place for 500 ms.
//
// # Guarantees
//
//   - Exclusion is best effort: it holds as long as the server keeps the key. See Failure modes.
//   - The server's wall clock enforces a TTL, to 1 ms; the shortest TTL is 100 ms. A step of that clock moves the end
//     of every lease: a step forward may end live leases, a step back keeps the keys of dead holders for longer. The
//     clocks of clients do not matter.
//   - Tokens are max(last + 1, server time in µs), from one counter per cluster slot. They increase across release,
//     expiry, restart and failover, even if the counter is lost, as long as the server's clock does not step back past
//     the last grant. A counter expires a day after the clock has passed its value, so unused counters disappear.
//   - Waiters are served in the order in which their requests reached the server. A waiter sends one request per
//     second, or when the key is due to expire if that is sooner. An Acquire that does not wait never overtakes a
//     waiter: it is refused while the key is reserved. If the key is free but has a queue, it reserves the key for the
//     first waiter instead.
//   - With 64 processes on one key, a hand-off takes at most 20 server commands, including those in scripts but not the
//     waiters' requests each second.
//   - Idle leases and waiters need no goroutine or connection of their own. A Backend has one subscription, which its
//     first waiter opens.
//
// # Failure modes
//
//   - Replication is asynchronous: a failover can lose an acknowledged grant. Then two owners hold the key until the
//     first owner's next renewal. MinReplicas makes this unlikely, but every grant and renewal then waits for replicas.
//     MinReplicas is not a quorum: Sentinel may promote a replica that did not receive the grant. Pass the token to the
//     resource that the lock protects, so that it can reject older tokens. A failover can lose a release, too: then the
//     key stays busy until the TTL has passed.
//   - If a master is partitioned from its replicas, and Sentinel or the Cluster has replaced it, it still grants and
//     renews for the clients on its side. Two owners then hold and renew the key until the partition ends. Set
//     min-replicas-to-write on every master that has replicas, or MinReplicas here, so that the old master refuses.
//     Redis before 6.2.7 does not apply min-replicas-to-write to scripts: only MinReplicas helps there. If a master
//     with replicas lacks the setting, or does not apply it, Guarantees mentions it.
//   - A server that restarts without its latest writes (no AOF, or appendfsync not always) loses the leases in them. If
//     it loses a release, the key stays busy until the TTL has passed. A server also loses leases if it evicts keys
//     (opening checks maxmemory-policy), is flushed, or its clock steps forward.
//   - The holder of a lost lease learns of the loss at its next renewal, or at its deadline.
//   - A full server (maxmemory with noeviction) still renews, releases and grants, because leases are small.
//   - If the process of the first waiter was killed or is frozen, the next waiter gets the key up to 1 s after the
//     release. Each further dead waiter in a row costs up to 600 ms more.
//   - An exclusive waiter that was killed or frozen behind shared leases delays the shared waiters behind it by up to
//     4 s, even if those leases last longer. If it sends no request for 3 s but is not dead, it queues again at the
//     end.
//   - A waiter that misses its reservation, because it paused for more than 500 ms, queues again at the end. If a
//     server loses its data, it loses its queues too; the waiters queue again, in any order.
//   - While the server is down, queued waiters keep trying for max(TTL, 10 s). Opening and Examine fail within 5 s, and
//     List fails within the request timeout for each page of keys. All other calls fail within the request timeout
//     (timeout of the URL or Options.Timeout, 2 s by default).
//   - If the context of an Acquire ends during a request, Acquire waits up to 100 ms for the reply, so that it leaves
//     nothing behind. Without a reply, the key may be taken without a holder until a background cleanup, or finally the
//     TTL, frees it.
//   - go-redis does not retry these requests, whatever MaxRetries is. The Backend retries them, and cleans up.
//   - While a Cluster moves a slot, renewals still work. Other requests for its keys are retried until the slot has
//     moved, or until the request timeout: then Acquire fails with ErrUnavailable, and a release continues in the
//     background. With MinReplicas, keys that have moved cannot be renewed before the whole slot has moved.
//   - Opening, by URL or by [New], makes the server run every command of the scripts. If the server lacks or forbids
//     any of them, opening fails with ErrUnsupported, which names them.
//   - Each opening by URL makes go-redis log its reconnects to the Locker's logger, in place of any logger that
//     redis.SetLogger has set. With [New], go-redis logs them to standard error unless redis.SetLogger sets another
//     logger.
//
// In a Cluster, notifications use ordinary PUBLISH, which the cluster bus sends to every node, and not SPUBLISH.
// Sharded channels would need a subscription on every node for every slot with waiters, and would have to follow slots
// that move. There is one message per contended hand-off, and none for an uncontended release.
//
// # Access control
//
// An ACL user needs exactly this:
//
//	~anylock:* &anylock:inbox:*
//	+del +eval +evalsha +exists +get +incr +info +mget +pexpire +pttl +publish +set +subscribe +time
//	+zadd +zcard +zcount +zpopmin +zrange +zrem +zremrangebyscore +zscore
//
// It also needs +select for a database other than 0, +cluster|slots in a Cluster, +wait for MinReplicas, and +scan for
// List. For another namespace, replace anylock. Redis 6.0 has no permissions on channels: omit &anylock:inbox:*.
// Without +info, opening cannot detect eviction. A user without the channels, or without +subscribe, can acquire locks,
// but an Acquire that has to wait fails.
//
// # URLs
//
//	redis://[user:password@]host[:6379][/db]      rediss:// with TLS
//	redis+unix://[user:password@]/path[?db=n]
//	redis+sentinel://[user:password@]host[:26379],…/master-name[/db]      rediss+sentinel:// with TLS
//	redis+cluster://[user:password@]host[:6379],…      rediss+cluster:// with TLS
//
// The user and password are for the data nodes; sentinel_username and sentinel_password are for the Sentinels. Other
// parameters (pool_size, …) are passed to go-redis, except its time limits and those that would read from replicas,
// which are rejected. With TLS, each server's certificate must match the dialled name or address. The parameters of
// this package are:
//
//	timeout=duration       time limit for one request; default 2s
//	lock_min_replicas=n    replicas that must have a grant or renewal before it counts (WAIT); default 0
//	lock_namespace=name    prefix of every key and channel, for access control lists; default anylock
//	cacert=file            with TLS: the authorities to trust, in PEM; by default this machine's
//	cert=file, key=file    with TLS: the client's certificate and its key, in PEM, for servers that require one
//
// Clients exclude each other if they use the same database and namespace. A redis.Ring is rejected, because it moves
// keys to other servers when one is down.
package redis
