// Package redis keeps locks in Redis 6.0 or newer, or Valkey: one server, a master with Sentinels, or a Cluster.
// Package redis/redlock keeps them on a majority of independent servers.
//
// The whole suite runs on Redis 6.0, 7.0 and 8.0 and on Valkey 8.1. Redis 5 and 6.2 should work, but no supported
// Debian has a package of them to test with.
//
// Import it for its URL schemes, or use [New] with a go-redis client that the application owns. Applications use
// package lock on top.
//
// A lock is one Redis key with an expiry. An acquire (with its fencing token), a renewal and a release are one request
// each, all Lua scripts that answer the same when they are sent again. A refused Acquire that waits gets a place in
// the key's queue within the same request. A release reserves the key for the first in the queue, for 500 ms, and
// notifies only its process, by pub/sub. Many leases are renewed in few requests (RenewBatch).
//
// Requests of one Backend that arrive while others are in progress share pipelines on a few connections. A request
// without an answer does not delay later ones, and a caller that gives up cancels no other request. A single request is
// sent at once; a Backend opened by a redis:// URL keeps a connection for these. In a Cluster each request is sent
// separately.
//
// # Shared leases
//
// The readers of a key are a sorted set in place of the lock's value, with the end of each; the key expires with the
// last. So a server keeps one key for any number of readers, and exclusive leases cost nothing more. Shared leases cost
// one request each for acquire, renewal and release too, and 1.5 to 2 times the server's time of exclusive ones,
// whatever their number. A release admits all shared waiters at the front of the queue at once, each with a reservation
// of 500 ms, and notifies each.
//
// # Guarantees
//
//   - Exclusion is best effort: it holds as long as the server keeps the key. See Failure modes.
//   - A TTL is enforced by the server's wall clock, to 1 ms; the shortest is 100 ms. A step of that clock moves the end
//     of every lease: a step forward may end live leases, a step back keeps the keys of dead holders for longer. The
//     clocks of clients do not matter.
//   - Tokens are max(last + 1, server time in µs), from one counter per cluster slot. They increase across release,
//     expiry, restart and failover, even if the counter is lost, as long as the server's clock does not step back past
//     the last grant. A counter expires a day after the clock has passed it, so unused ones disappear.
//   - Waiters are served in the order in which their requests reached the server. A waiter sends one request each
//     second while it waits, or one when the key would expire if that is sooner. An Acquire that does not wait never
//     overtakes waiters: it is refused while the key is reserved, and on a free key with a queue it wakes the queue
//     instead.
//   - With 64 processes on one key a hand-off takes at most 20 commands of the server, including those in scripts,
//     besides the waiters' requests each second.
//   - Idle leases and waiters cost no goroutine or connection of their own. A Backend has one subscription, opened when
//     it first has to wait.
//
// # Failure modes
//
//   - Replication is asynchronous: a failover can lose a grant that was acknowledged. Then two owners hold the key
//     until the first one's next renewal. MinReplicas makes that unlikely, at the cost of waiting for replicas at every
//     grant and renewal. It is not a quorum: Sentinel may promote a replica that did not receive the grant. Pass the
//     token to the resource that the lock protects, and let it refuse older ones.
//   - A master that is cut off from its replicas, and that Sentinel or the Cluster has replaced, still grants and
//     renews for the clients on its side: two owners hold and renew the key for as long as the partition lasts. Set
//     min-replicas-to-write on every master that has replicas, or MinReplicas here: then the old master refuses.
//     Guarantees mentions a master with replicas on which min-replicas-to-write is not set.
//   - A server that restarts without its latest writes (no AOF, or appendfsync not always) has lost the leases in them.
//     So has a server that evicts keys (opening checks maxmemory-policy), was flushed, or whose clock jumped forward.
//   - The holder of a lost lease finds out at its next renewal, or at its deadline.
//   - A server that is full (maxmemory with noeviction) still renews, releases and grants: leases are small.
//   - If the process of the first waiter was killed or is frozen, the next waiter gets the key up to 1 s after the
//     release. Each further dead waiter in a row costs up to 600 ms more.
//   - An exclusive waiter that was killed or frozen behind shared leases holds up the shared waiters behind it for up
//     to 4 s, also if those leases stay. A waiter that could send no request for 3 s behind shared leases queues again
//     at the end.
//   - A waiter that misses its reservation, because it paused for more than 500 ms, queues again at the end. A server
//     that lost its data has lost its queues too; waiters queue again, in any order.
//   - While the server is down, waiters that have queued keep trying for max(TTL, 10 s); all other calls fail within
//     the request timeout (timeout of the URL or Options.Timeout, 2 s by default), opening and Examine within 5 s, and
//     List within the request timeout for each page of keys.
//   - An Acquire whose context ends in the middle of a request waits up to 100 ms for the answer, to leave nothing
//     behind. If there is no answer, the key may be taken without a holder until a clean-up in the background, or
//     finally the TTL, frees it.
//   - go-redis does not repeat these requests by itself, whatever MaxRetries says; the Backend does, and cleans up.
//   - While a Cluster moves a slot, renewals still work. Other requests for its keys are repeated until the slot has
//     arrived, or until the request timeout: then Acquire fails with ErrUnavailable, and a release continues in the
//     background. With MinReplicas, keys that have moved cannot be renewed before the slot has arrived.
//   - Opening, by URL or by [New], makes the server try every command that the scripts run. If the server lacks or
//     forbids any, opening fails with ErrUnsupported and their names.
//   - go-redis logs its reconnects to standard error unless redis.SetLogger says otherwise.
//
// In a Cluster the messages use ordinary PUBLISH, which the cluster's bus sends to every node, not SPUBLISH. Sharded
// channels would need a subscription on every node for every slot with waiters, and would have to follow slots that
// move. There is one message per contended hand-off, and none for an uncontended release.
//
// # Access control
//
// An ACL user needs exactly this:
//
//	~anylock:* &anylock:inbox:*
//	+del +eval +evalsha +exists +get +incr +info +mget +pexpire +ping +pttl +publish +set +subscribe +time
//	+zadd +zcard +zcount +zpopmin +zrange +zrem +zremrangebyscore +zscore
//
// It also needs +select for a database other than 0, +cluster|slots in a Cluster, +wait for MinReplicas, and +scan for
// List. If you set another namespace, write it in place of anylock. Redis 6.0 has no rights on channels: omit
// &anylock:inbox:*. Without +info, opening cannot detect eviction. A user without the channels, or without +subscribe,
// can acquire locks, but an Acquire that has to wait is refused.
//
// # URLs
//
//	redis://[user:password@]host[:6379][/db]      rediss:// with TLS
//	redis+unix://[user:password@]/path[?db=n]
//	redis+sentinel://[user:password@]host[:26379],…/master-name[/db]      rediss+sentinel:// with TLS
//	redis+cluster://[user:password@]host[:6379],…      rediss+cluster:// with TLS
//
// The user is for the data nodes; Sentinels get sentinel_username and sentinel_password. Other parameters are go-redis'
// (pool_size, …), but those that would read from replicas and its time limits are refused. With TLS, each server's
// certificate must match the name or address that is dialled. The parameters of this package are:
//
//	timeout=duration       time limit for one request; default 2s
//	lock_min_replicas=n    replicas that must have a grant or renewal before it counts (WAIT); default 0
//	lock_namespace=name    prefix of every key and channel, for access control lists; default anylock
//	cacert=file            with TLS: the authorities to trust, in PEM; by default this machine's
//	cert=file, key=file    with TLS: the client's certificate and its key, in PEM, for servers that require one
//
// Clients exclude each other if they reach the same database with the same namespace. A redis.Ring is refused: it moves
// keys to other servers when one is down.
package redis
