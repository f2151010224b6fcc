// Package recipe has what is often built with a lock: a leader ([Lead]), several keys at once ([AcquireAll]) and a limit on how many
// work at the same time ([Semaphore]).
//
// Each is made of leases of package lock, and needs nothing else of the store. So it works on every store, keeps what the
// store promises, and has no other weaknesses: a lease ends if its holder dies, renews itself, tells its holder when it is lost, and
// carries a fencing token. Everything is safe for concurrent use.
//
// Options are those of package lock and apply to each lease that is taken. Do not give a context a deadline to limit a wait,
// because the leases end with the context. Use lock.WithWait.
package recipe
