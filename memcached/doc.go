// Package memcached keeps locks in one memcached server. It is tested with memcached 1.6.
//
// Import it for its URL schemes, or use [New] with an address. Applications use package lock on top.
//
// A lock is one item with an expiration. An acquire is an add, and an incr that draws its fencing token. A renewal and a
// release read the item (gets), compare the owner in it, and swap it if it has not changed since (cas), a release for
// an item that has expired: two requests each. Many leases are read by one request and swapped one by one (RenewBatch),
// which halves the time of renewing ten thousand. A refused Acquire that waits asks again and again, at
// first after some 5 ms, later about four times a second, by one request.
//
// A cache is a weak place for locks: it may forget them. Use it to spare work, not to protect what two must not do at once;
// or let what is protected check the tokens.
//
// # Guarantees
//
//   - Exclusion is best effort: it holds as long as the server keeps the item. See Failure modes.
//   - A TTL is rounded up to whole seconds, the least is one. The server counts in whole seconds, of a clock that it looks
//     at about once a second and that now and then skips one. So two more are sent: a lock never expires early by that,
//     and up to 2.5 s late.
//   - A server that did not run for a while (a stopped process, a machine that was moved) serves what has arrived in the
//     meantime by its clock of before, which would cut TTLs short. An acquire or renewal that took more than 250 ms is
//     therefore repeated by a renewal, 100 ms later, before it counts. What is left are requests that arrive in the last
//     250 ms of a pause: their leases may end early, by as long as the pause was.
//   - The longest TTL is 30 days less two seconds, Guarantees.MaxTTL. memcached takes what is longer for a date by its clock. A TTL
//     beyond is ErrInvalid.
//   - Tokens increase per key across release, expiry, eviction and restart, while the server's clock does not step back past
//     the last grant. They come from one counter, which begins at the time in µs whenever it is missing: by the clock of
//     the client that finds it so, kept within the four seconds that the server's clock of whole seconds allows. So the
//     order may break if the counter is lost twice within four seconds and two clients' clocks disagree. Whatever
//     clocks do, the tokens that one Backend draws increase.
//   - A token is drawn after the lock is granted. When that takes more than 250 ms, the lock is looked at again; before, a
//     lease whose lock was dropped in between, and granted to another that has drawn its token already, has the higher
//     token of the two.
//   - Waiters poll, in no order. Whoever does not wait may be faster than those who do.
//   - Leases and waiters cost no goroutine or connection at rest. A Backend has as many connections as requests at once,
//     32 at most.
//
// # Failure modes
//
//   - The server drops a lock when it needs the memory for other items, least recently used first (a renewal is a use), when
//     it restarts, and on flush_all. Another may hold the key then, until the first holder's next renewal tells it.
//     Give locks a server of their own, or enough memory. See the server's statistic "evictions".
//   - A server with -M drops nothing when it is full, and refuses instead: an acquire, a renewal and a release are
//     ErrOutOfMemory then. A lease that cannot be renewed is lost at its deadline; one that cannot be released ends by its
//     TTL.
//   - A key belongs to one server. With several, a change of their list moves keys away from their holders; a URL names one,
//     and a host name with several addresses is refused.
//   - Compare-and-swap numbers start anew with the server, so that an old owner's number may be a new owner's. Both requests of a
//     swap therefore go over one connection, which does not outlive the server.
//   - A server without compare-and-swap (-C) is refused.
//   - After a request without an answer the outcome is unknown. It is made again and recognises its own owner. If there is
//     no answer within the timeout, Acquire fails, and a clean-up in the background, or at last the TTL, frees the key.
//   - An Acquire whose context ends in the middle of a request waits up to 100 ms for the answer, to leave nothing behind.
//   - While the server is away, waiters that were told that the key is busy go on trying for max(TTL, 10 s); all other
//     calls fail within the timeout, 2 s by default.
//   - Inspect cannot tell the TTL that is left, and the token only of a lease that was renewed.
//   - There are no passwords: the client library cannot authenticate. Whoever reaches the server can take any lock, unless it speaks
//     TLS and wants a certificate of its clients.
//
// Keys that are not made of letters, digits and "-_./@" are escaped; where the item's name would be longer than 250 bytes,
// it is cut and gets the SHA-256 of the key. The item holds the whole key, and a twin would be refused.
//
// # URLs
//
//	memcached://host[:11211][?timeout=500ms][&max_idle_conns=32]
//	memcacheds://host[:11211][?cacert=/etc/memcached/ca.pem]
//
// Of the parameters that are named after the client library's fields, timeout bounds each step (2 s) and max_idle_conns the
// connections (32). Our own parameters:
//
//	lock_namespace=name    begins the name of every item; default anylock
//	cacert=file            with memcacheds, which is TLS: the authorities to trust, in PEM; by default this machine's
//	cert=file, key=file    with memcacheds: the client's certificate and its key, in PEM, for servers that want one
//
// For other ways to the server give [New] a DialContext.
package memcached
