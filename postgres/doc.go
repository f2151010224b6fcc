// Package postgres keeps locks in Postgres: as advisory locks, with nothing to create or migrate. It is tested with
// Postgres 15 and PgBouncer 1.18.
//
// Import it for its URL schemes, or use [New] with a configuration of pgx. Applications use package lock on top.
//
// A key is a lock on the first 64 bits of the SHA-256 of namespace and key. A lease is that lock, held by a session whose
// idle_session_timeout is the TTL: the server itself ends the session of a holder that is dead, frozen or cut off, by its
// own clock, and a renewal is any statement. An acquire with its fencing token, a renewal and a release are one request
// each. A waiter stands in the server's own queue.
//
// In transaction mode the lock is an open transaction's, and idle_in_transaction_session_timeout the TTL, so that it works
// through a pooler in transaction pooling. The token costs a second request, by another connection: a server that was started since
// the lock was given, or that took the other's place, grants nothing by it. Waiters poll. A session and a transaction exclude each
// other.
//
// # Guarantees
//
//   - Exclusion is best effort: it holds while the server runs. See Failure modes.
//   - A TTL is enforced by the server's timer, to 1 ms; the least is 100 ms. One of more than 24 days, the server's longest,
//     is kept up by statements in between. The timer compares the server's wall clock: see Failure modes.
//   - Tokens are transaction ids, taken after the lock, with the number of the grant among those that one id serves: a client
//     keeps using its id while it is the server's newest, which spares the server's log. They increase across release and expiry, and across a stop of the
//     server in order. A crash makes the server forget the ids of its last moments (up to 3 × wal_writer_delay, 0.6 s)
//     and give them again, so that Fencing is FencingProcess; with Durable each id waits for the server's log on disk,
//     and it is FencingRestart. Ids do not survive dump and restore, nor a failover: no grant waits for a standby, not even for one
//     that the primary waits for (synchronous_standby_names), as it would do so with the lock and without a timer.
//   - Waiters that have a connection are served in the order in which they came to the server; the others ask again and
//     again, every 20 to 500 ms, and come in when they meet the key free. An Acquire that does not wait never passes
//     those in the queue.
//   - A held lease has a connection of its own, and so has a waiter at the server; both count for MaxLeases, 32. One more is
//     ErrExhausted, which matches backend.ErrUnavailable, or waits in line. Options.Share lets leases share connections, and
//     says what that costs. A connection at rest has one goroutine that reads from it, and is closed after a minute, but for one.
//   - An Acquire that waits costs one request more if the key is busy: the first tells it so, the second stands in the queue.
//   - The end of a session (pg_terminate_backend, a crash, a broken connection) is known within 100 ms.
//   - Close does not release: connections that carry leases stay open until their TTL has run out, or the process ends.
//
// # Failure modes
//
//   - A restart, crash or failover of the server drops all leases: advisory locks are neither logged nor replicated. Their
//     holders are told when the connection breaks. A holder that is cut off from a server which restarts is told at its
//     next renewal, or its deadline; until then two may hold the key. Pass the token to what the lock protects, and
//     let that refuse older ones: with Durable.
//   - A network path that resets a connection to the server, and not to the client, ends a lease in the same way.
//   - The server's wall clock, when it is stepped back, keeps the key of a dead or frozen holder for longer by the step: Postgres'
//     timers look at the time when they go off. A step forward may end live leases before their deadline, by as much as they were
//     renewed since an earlier alarm was set; their holders are told at once. A clock that is slewed does neither.
//   - A path that drops everything without a word is noticed after half a minute: by probes, and on Linux also while a request
//     is on its way.
//   - An attempt whose connection breaks in the middle is made again, after the session behind it, which may have the lock, has been
//     ended: by its number, and so not through a pooler.
//   - A process that dies gives up its leases at once, as the server sees its connections close.
//   - Two keys with the same 64 bits exclude each other. For two given keys that has a probability of 2^-64; among a
//     million keys, 3·10^-8. Nothing else confuses them: a release is by the session that holds the lock.
//   - Advisory locks belong to a database, and other tools use them too. Whoever locks the same number keeps the key busy;
//     Inspect shows such a session as "unknown@application:pid".
//   - A waiter's statement keeps a snapshot for as long as it stands in the queue, which holds back vacuum. Where waits are
//     long, let them end and begin anew (WithWait), or use transaction mode, which polls.
//   - A waiter that dies in the queue is granted the key when its turn comes, if the server has not noticed yet: it looks
//     once a second, and sees a process that ended. One that is frozen or cut off delays the next by its TTL.
//   - A full lock table (max_locks_per_transaction × max_connections) fails everybody's statements; MaxLeases is a quarter of it at
//     most, and ErrExhausted says so when others fill it. A server without a free connection (53300) is ErrExhausted too; an
//     Acquire that waits goes on asking.
//   - While the server is away, waiters that had queued go on trying for max(TTL, 10 s), and queue again at the end; all
//     other calls fail. A request without an answer after Timeout, 2 s, is given up with its connection, but a renewal
//     waits for its answer until the deadline.
//   - A lease whose idle session is ended by something else (a pooler's own timeouts, tcp_keepalives) is lost early. PgBouncer
//     needs idle_transaction_timeout = 0, and a default_pool_size above the number of leases: each keeps a server connection,
//     and a token needs one more. A pooler without a free one is ErrUnavailable after twice the Timeout.
//   - Waiters in transaction mode ask again and again, so that they starve where others queue in session mode: beside one client
//     that took a key without a break, in session mode, they had 12 of 888 grants; beside four, none of 667. Do not mix the modes on
//     contended keys.
//   - An Acquire whose context ends in the middle of a request closes its connection; the next one costs a few milliseconds
//     more. PgBouncer 1.18 can crash on cancel requests ("bad client state"), so none is sent through a pooler, but by pgx
//     after a connection has broken, when its pooler has mostly forgotten it.
//   - Inspect shows the owner as the holder's session tells it in pg_stat_activity, to the same role and to members of
//     pg_read_all_stats, where track_activities is on. It cannot tell the token.
//
// Standbys are refused at opening and by each new connection; list all hosts in the URL with target_session_attrs=primary
// (connect_timeout is for how long each may be silent; 10 s in all, divided among them, by default). A
// pooler that gives statements to different sessions is refused in session mode: at opening, and later by each new connection and
// each statement, as every session is marked (the setting anylock.session), and a statement in a session with another mark does
// nothing. So a pooler that is switched to transaction pooling under running clients ends leases, but gives none twice; a key
// that was held then is free when its session has been idle for the TTL, or the pooler closes it. PgBouncer must clear a session
// of what a client has set (server_reset_query = DISCARD ALL, its default). Servers that only look like Postgres are refused by
// what they cannot do: a lock that is granted at opening must be seen in pg_locks.
//
// # URLs
//
//	postgres://[user[:password]@][host[:5432]][,…][/database]      also postgresql://
//
// All but our own parameters go to pgx as they are: several hosts, sockets (host=/run/postgresql), sslmode,
// target_session_attrs, and run-time parameters of the server. Our own:
//
//	lock_mode=session|transaction   how a lease is tied to the server; default session, which needs Postgres 14
//	lock_namespace=name             goes into the hash of every key; default anylock
//	lock_max_leases=n               leases at most, held or waited for, each with a connection unless they share; default 32
//	lock_share=duration             TTL up to which leases share connections; default 0, none
//	lock_durable=true               tokens survive a crash of the server, for one flush of its log per transaction id
//	lock_timeout=duration           of one request; default 2s
//
// The role needs no rights but to connect. Clients exclude each other if they reach the same database with the same
// namespace.
package postgres
