// Package postgres keeps locks in Postgres as advisory locks. There is nothing to create or migrate. It is tested with
// Postgres 15.
//
// Import it for its URL schemes, or use [New] with a configuration of pgx. Applications use package lock on top.
//
// A key is a lock on the first 64 bits of the SHA-256 of namespace and key. A lease is that lock, held by a session
// whose idle_session_timeout is the TTL. The server itself, by its own clock, ends the session of a holder that is
// dead, frozen or cut off. Any statement is a renewal. An acquire with its fencing token, a renewal and a release are
// one request each. A waiter waits in the server's own queue.
//
// A pooler is refused at opening and on each new connection, because a session of its server is not the client's.
// Package sqltable works through poolers (postgres+table://).
//
// # Guarantees
//
//   - Exclusion is best effort: it holds while the server runs. See Failure modes.
//   - A TTL is enforced by the server's timer, to 1 ms; the shortest is 100 ms, and the longest 24 days. The
//     timer uses the server's wall clock: see Failure modes.
//   - Tokens are transaction ids, taken after the lock, plus a number for each grant that shares an id: a client keeps
//     using its id while it is the server's newest, which saves log writes on the server. Tokens increase across
//     release and expiry, and across a clean stop of the server. A crash makes the server forget the ids of its last
//     moments (up to 3 × wal_writer_delay, 0.6 s) and use them again, so Fencing is FencingProcess. With Durable each
//     id waits for the server's log on disk, and Fencing is FencingRestart. Ids do not survive dump and restore, nor a
//     failover: no grant waits for a standby, not even for a synchronous one (synchronous_standby_names), because it
//     would wait while it has the lock and no timer runs.
//   - Waiters that have a connection are served in the order in which they reached the server. The others poll,
//     every 20 to 500 ms, and get the key if they find it free. At a poll they join the queue, if fewer than
//     MaxLeases/2 of the same client wait in it. An Acquire that does not wait never overtakes the queue.
//   - A held lease has its own connection, and so has a waiter at the server; both count for MaxLeases, 32. One more is
//     ErrExhausted, which matches backend.ErrUnavailable, or waits in line. An idle connection has one goroutine that
//     reads from it. All but one are closed after a minute.
//   - An Acquire that waits costs one more request if the key is busy: the first finds it busy, the second waits in the
//     queue.
//   - The end of a session (pg_terminate_backend, a crash, a broken connection) is known within 100 ms.
//   - Close does not release: connections that carry leases stay open until their TTL has run out, or the process ends.
//
// # Shared leases
//
// A shared lease is a shared advisory lock (pg_advisory_lock_shared), on a session of its own like every lease. So each
// reader has its own timer, deadline and loss, and Break ends one reader alone. Requests are those of an exclusive
// lease: one to acquire, one to renew, one to release. Each reader counts for MaxLeases, also beside others on the same
// key.
//
//   - The queue of the server keeps the order: a reader that arrives behind a waiting writer waits, or gets ErrHeld;
//     the readers between two writers are granted together, and a writer that is cancelled frees those behind it at
//     once.
//   - A writer that dies in the queue delays the readers behind it as it delays any waiter: for about a second if its
//     process ended. If it is frozen or cut off, it stays in the queue until the readers ahead of it have ended, and
//     then holds the key for its TTL.
//   - A writer that polls finds its key free only between readers, so readers that succeed each other can keep it out
//     for as long as all MaxLeases/2 places of its client in the server's queue are taken.
//   - No two tokens of a key are equal.
//   - Inspect counts the readers in pg_locks, and describes the one whose timer ends last. Shared locks that other
//     tools hold on the same number count too.
//
// # Failure modes
//
//   - A restart, crash or failover of the server drops all leases: advisory locks are neither logged nor replicated.
//     Their holders are notified when the connection breaks. A holder that is cut off from a restarted server finds
//     out at its next renewal, or at its deadline; until then two may hold the key. After a crash it helps to use
//     Durable, to pass the token to the resource that the lock protects, and to let it refuse older ones. After a
//     failover that does not help, because tokens may repeat.
//   - If the network resets a connection towards the server but not towards the client, that ends a lease in the same
//     way.
//   - If the server's wall clock steps back, the key of a dead or frozen holder stays taken longer by the size of the
//     step, because Postgres' timers look at the time when they fire. A step forward may end live leases before their
//     deadline, by as much as they were renewed since an earlier alarm was set; their holders are notified at once.
//     Slewing the clock does neither.
//   - A network that silently drops everything is noticed after half a minute: by probes, and on Linux even while a
//     request is being sent.
//   - If a connection breaks or is given up in the middle of a request, the session behind it, which may have the lock,
//     is ended by its number, in the background until it has ended or its TTL has run out. An attempt on a
//     connection that was used before is repeated.
//   - If a process dies, its leases end at once, because the server sees its connections close.
//   - Two keys with the same 64 bits exclude each other. For two given keys that has a probability of 2^-64; among a
//     million keys, 3·10^-8. Nothing else confuses them: a release is by the session that holds the lock.
//   - Advisory locks belong to a database, and other tools use them too. If another tool locks the same number, the key
//     is busy; Inspect shows such a session as "unknown@application:pid".
//   - A waiter's statement keeps a snapshot for as long as it is in the queue, which holds back vacuum. If waits are
//     long, end and repeat them (WithWait).
//   - A waiter that dies in the queue is granted the key when its turn comes, unless the server has noticed: it checks
//     once a second for a process that ended. A waiter that is frozen or cut off delays the next by its TTL.
//   - If the lock table (max_locks_per_transaction × max_connections) is full, everybody's statements fail. MaxLeases
//     is at most a quarter of it, and if others fill it, the error is ErrExhausted. If the server has no free
//     connection (53300), the error is ErrExhausted too; an Acquire that waits keeps retrying.
//   - While the server is down, waiters that had queued keep trying for max(TTL, 10 s), and queue again at the end; all
//     other calls fail. A request without an answer after Timeout, 2 s, is given up with its connection, but a renewal
//     waits for its answer until the deadline.
//   - A lease whose idle session is ended by something else (tcp_keepalives) is lost early.
//   - An Acquire whose context ends in the middle of a request closes its connection; the next one costs a few
//     milliseconds more.
//   - Inspect shows the owner that the holder's session reports in pg_stat_activity, to the same role and to members of
//     pg_read_all_stats, if track_activities is on. It does not show the token.
//
// Standbys are refused at opening and on each new connection. List all hosts in the URL with
// target_session_attrs=primary (connect_timeout limits how long each may be silent; by default 10 s in all, divided
// among them).
//
// Servers that only resemble Postgres are detected at opening: a
// lock that they grant must be visible in pg_locks.
//
// # URLs
//
//	postgres://[user[:password]@][host[:5432]][,…][/database]      also postgresql://
//
// All but our own parameters go to pgx as they are: several hosts, sockets (host=/run/postgresql), sslmode,
// target_session_attrs, and run-time parameters of the server. Our own:
//
//	lock_max_leases=n               most leases held or waited for, each with its own connection; default 32
//	lock_durable=true               tokens survive a crash of the server, at the cost of one flush of its log per transaction id
//	timeout=duration                time limit for one request; default 2s
//
// The role needs no rights but to connect. Clients exclude each other if they reach the same database.
package postgres
