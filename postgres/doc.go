// Package postgres keeps locks in Postgres as advisory locks. There is nothing to create or migrate. It is tested with
// Postgres 15.
//
// Import it for its URL schemes, or use [New] with a configuration of pgx. Applications use package lock on top.
//
// A key is an advisory lock on the first 64 bits of the SHA-256 of namespace and key. A lease is that lock, held by a
// session whose idle_session_timeout is the TTL. If a holder is dead, frozen or cut off, the server ends its session,
// by the server's own clock. Any statement renews the lease. An acquire with its fencing token, a renewal and a release
// are one request each. A waiter waits in the server's own queue.
//
// Poolers are refused at opening and on each new connection, because a server session behind a pooler does not belong
// to one client. Package sqltable works through poolers (postgres+table://).
//
// # Guarantees
//
//   - Exclusion is best effort: it holds while the server runs. See Failure modes.
//   - The server's timer enforces a TTL, with a granularity of 1 ms. The shortest TTL is 100 ms, the longest 24 days.
//     The timer uses the server's wall clock: see Failure modes.
//   - A token is a transaction id, assigned after the lock, and a number for each grant that shares the id. A client
//     shares its id among grants while no newer id exists on the server, which saves log writes there. Tokens increase
//     across release and expiry, and across a clean stop of the server. In a crash, the server forgets the ids of its
//     last moments (up to 3 × wal_writer_delay, 0.6 s) and assigns them again, so Fencing is FencingProcess. With
//     Durable, a grant waits until its id is in the server's log on disk, and Fencing is FencingRestart. Ids do not
//     survive dump and restore, nor a failover. No grant waits for a standby, not even a synchronous one
//     (synchronous_standby_names), because no timer would run while the session waits and holds the lock.
//   - Waiters in the server's queue are served in order of arrival. The others poll, every 20 to 500 ms, and get the
//     key if they find it free. At a poll, a waiter joins the queue if fewer than MaxLeases/2 waiters of the same
//     client are in it. An Acquire that does not wait never overtakes the queue.
//   - Each held lease and each waiter at the server has its own connection. Both count toward MaxLeases, by default 32.
//     Beyond MaxLeases, an Acquire that waits does so in order of arrival, and any other fails with ErrExhausted, which
//     matches backend.ErrUnavailable. One goroutine reads from each idle connection. Connections without a lease are
//     closed after a minute, except one.
//   - If the key is busy, an Acquire that waits needs a second request: the first finds the key busy, the second waits
//     in the queue.
//   - The client detects the end of a session (pg_terminate_backend, a crash, a broken connection) within 100 ms.
//   - Close does not release: connections that carry leases stay open until their TTL has run out, or the process ends.
//
// # Shared leases
//
// A shared lease is a shared advisory lock (pg_advisory_lock_shared), on its own session like every lease. So each
// reader has its own timer and deadline, can lose its lease alone, and can be ended alone by Break. To acquire, renew
// and release is one request each, as for an exclusive lease. Each reader counts toward MaxLeases, even if others hold
// the same key.
//
//   - The server's queue keeps the order. A reader that arrives behind a waiting writer waits, or gets ErrHeld. The
//     readers between two writers are granted together. If a waiting writer is cancelled, it no longer blocks the
//     readers behind it.
//   - A writer that dies in the queue delays the readers behind it like any other waiter: for about a second if its
//     process has ended. If the writer is frozen or cut off, it stays in the queue until the readers ahead of it have
//     ended, and then holds the key for its TTL.
//   - A writer that polls gets the key only if no reader holds it at that moment. Readers that overlap can therefore
//     keep the writer out, as long as its client's MaxLeases/2 places in the server's queue are all taken.
//   - No two tokens of a key are equal.
//   - Inspect counts the readers in pg_locks, and describes the one whose timer ends last. Shared locks that other
//     tools hold on the same number count too.
//
// # Failure modes
//
//   - A restart, crash or failover of the server drops all leases: advisory locks are neither logged nor replicated.
//     Their holders are notified when the connection breaks. A holder that is cut off from a restarted server detects
//     the loss at its next renewal, or at its deadline; until then, two clients may hold the key. After a crash,
//     fencing helps: use Durable, pass the token to the resource that the lock protects, and let the resource refuse
//     older tokens. After a failover, fencing does not help, because tokens may repeat.
//   - If the network resets a connection at the server's end but not at the client's, the lease ends in the same way.
//   - If the server's wall clock steps back, the key of a dead or frozen holder stays taken longer by the size of the
//     step, because Postgres' timers check the clock when they fire. If it steps forward, live leases may end before
//     their deadline, by at most the time that renewals have added since the server set its alarm; their holders are
//     notified at once. Slewing the clock does neither.
//   - If the network silently drops all packets, the client detects this after half a minute by probes, on Linux even
//     while a request is being sent.
//   - If a connection breaks or times out in the middle of a request, its session may still hold the lock. The client
//     terminates that session by its process id, in the background, until the session has ended or Close begins. If a
//     reused connection has broken, the attempt is repeated.
//   - If a process dies, its leases end at once, because the server sees its connections close.
//   - Two keys whose hashes have the same 64 bits exclude each other. The probability is 2^-64 for two given keys, and
//     3·10^-8 among a million keys. There is no other confusion, because only the session that holds the lock can
//     release it.
//   - Advisory locks belong to a database, and other tools use them too. If another tool locks the same number, the key
//     is busy; Inspect shows such a session as "unknown@application:pid".
//   - A waiter's statement keeps a snapshot while it is in the queue, which holds back vacuum. If waits are long, limit
//     and repeat them (WithWait).
//   - A waiter that dies in the queue is granted the key at its turn, unless the server has noticed its death: once a
//     second, the server checks whether the waiter's process has ended. A frozen or cut-off waiter delays the next one
//     by its TTL.
//   - If the lock table (max_locks_per_transaction × max_connections) is full, every client's statements fail.
//     MaxLeases is at most a quarter of the table. If other clients fill the table, the error is ErrExhausted. If the
//     server has no free connection (53300), the error is ErrExhausted, too, but an Acquire that waits keeps retrying.
//   - While the server is down, waiters that were in its queue retry for max(TTL, 10 s), and then join the end of the
//     queue; all other calls fail. If a request gets no reply within Timeout, 2 s by default, its connection is closed.
//     A renewal, however, waits for its reply until the deadline.
//   - If something else ends the idle session of a lease (for example tcp_keepalives), the lease is lost early.
//   - If the context of an Acquire ends in the middle of a request, the connection is closed, and the next Acquire
//     takes a few milliseconds longer.
//   - Inspect shows the owner that the holder's session reports in pg_stat_activity. This is visible to the same role
//     and to members of pg_read_all_stats, if track_activities is on. Inspect does not show the token.
//
// Standbys are refused at opening. Later, a new connection that reaches a standby counts as an outage. List all hosts
// in the URL, with target_session_attrs=primary. connect_timeout limits how long each address may be silent: by default
// twice the time limit of a request, or a share of 10 s if there are several hosts. All addresses together have 10 s.
//
// Servers that only resemble Postgres are detected at opening: a lock that they grant must be visible in pg_locks.
//
// # URLs
//
//	postgres://[user[:password]@][host[:5432]][,…][/database]      also postgresql://
//
// pgx receives all parameters unchanged except those below: several hosts, sockets (host=/run/postgresql), sslmode,
// target_session_attrs, and run-time parameters of the server. The store's own parameters are:
//
//	lock_max_leases=n               most leases held or waited for, each with its own connection; default 32
//	lock_durable=true               tokens survive a server crash; each transaction id costs a flush of the server's log
//	timeout=duration                time limit for one request; default 2s
//
// The role needs only the right to connect. Clients exclude each other if they reach the same database.
package postgres
