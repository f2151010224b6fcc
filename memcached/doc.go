// Package memcached keeps locks in one memcached server. It is tested with memcached 1.6.
//
// Import it for its URL schemes, or use [New] with an address. Applications use package lock on top.
//
// A lock is one item with an expiration. An acquire takes three requests: an add, an incr that returns the fencing
// token, and an append that stores the token in the item, for Inspect and Resume. A renewal and a release each take
// two: they read the item (gets), compare its owner, and replace the item if it has not changed since (cas). A release
// replaces the item by one that has already expired. A waiter polls with one request, at first after some 5 ms, later
// about six times a second.
//
// A cache may drop locks. Use it to avoid duplicate work, but not where a second holder does damage, unless the
// protected resource checks the tokens.
//
// # Guarantees
//
//   - Exclusion is best effort: it holds as long as the server keeps the item. See Failure modes.
//   - A TTL is rounded up to whole seconds, at least one. The server counts whole seconds, on a clock that it reads
//     about once a second and that sometimes skips a second. Therefore two more seconds are sent: the server's clock
//     never makes a lock expire early, but a lock may expire up to 2.5 s late.
//   - After a pause (a stopped process, a migrated virtual machine) the server handles the requests that arrived
//     meanwhile by its old clock. A lease that was granted or renewed by such a request may expire early, by up to the
//     length of the pause.
//   - The longest TTL is 30 days minus two seconds, Guarantees.MaxTTL. memcached would read a longer one as a date. A
//     longer TTL is ErrInvalid.
//   - Tokens increase per key across release, expiry, eviction and restart, unless the server's clock steps back past
//     the last grant. They come from one counter. If the counter is missing, it starts at the time in µs, by the clock
//     of the client that finds it missing. That time is moved to within five seconds of the server's time. The order
//     may break if the counter is lost twice within ten seconds and two clients' clocks disagree, or if it is lost
//     twice during one request. The tokens that one Backend draws always increase.
//   - A token is drawn after the lock is stored. If that takes more than 250 ms, Acquire checks that the server still
//     holds the lock. Within that time, the server may drop the lock and grant it to another owner, who draws a token
//     first. Then the older lease has the higher token of the two.
//   - Waiters poll, in no order. A caller that does not wait may overtake waiters.
//   - Idle leases and waiters need no goroutine or connection. A Backend has as many connections as concurrent
//     requests, at most 32.
//
// # Failure modes
//
//   - The server drops a lock when it needs the memory for other items, least recently used first (a renewal counts as
//     a use), when it restarts, and on flush_all. Then another owner may hold the key until the first holder's next
//     renewal. Use a separate server for locks, or enough memory. See the server's statistic "evictions".
//   - A full server with -M drops nothing. Instead, an acquire, a renewal and a release fail with ErrOutOfMemory. A
//     lease that cannot be renewed is lost at its deadline; a lease that cannot be released expires.
//   - A key belongs to one server. With several servers, a change in their list would move keys away from their
//     holders. So a URL names one server, and a host name with several addresses of one family is rejected.
//   - Compare-and-swap numbers start again when the server restarts, so an old owner's number may match a new owner's
//     item. Both requests of a swap therefore use one connection, which does not survive a restart.
//   - A server without compare-and-swap (-C) is rejected.
//   - The outcome of an unanswered request is unknown. The request is repeated, and recognises a lock of its own owner.
//     If there is no reply within the timeout, Acquire fails, and a cleanup in the background, or the TTL, frees the
//     key.
//   - An Acquire whose context ends during a request waits up to 100 ms for the reply, so that nothing remains on the
//     server.
//   - While the server is down, waiters that have found the key busy keep trying for max(TTL, 10 s). All other calls
//     fail within the timeout, 2 s by default.
//   - Inspect does not show the remaining TTL.
//   - There are no passwords: the client library cannot authenticate. Anyone who can connect to the server can acquire
//     or remove any lock, unless the server uses TLS and requires client certificates.
//
// Characters of a key other than letters, digits and "-_./@" are escaped. An item's name that would exceed 250 bytes is
// cut and ends in the SHA-256 of the key. The item contains the whole key, so a key with the same name would be
// rejected.
//
// # URLs
//
//	memcached://host[:11211]      memcacheds:// with TLS
//
// Parameters:
//
//	timeout=duration       time limit for one acquire, renewal or release, with its retries; default 2s
//	max_idle_conns=n       most connections; default 32
//	cacert=file            with TLS: the authorities to trust, in PEM; by default this machine's
//	cert=file, key=file    with TLS: the client's certificate and its key, in PEM, for servers that require one
//
// For other kinds of connections, give [New] a DialContext.
package memcached
