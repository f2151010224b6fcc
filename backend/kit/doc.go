// Package kit implements what most stores need for [backend.Backend]. A store may use all of it, parts of it, or
// nothing.
//
//   - [Leases] tracks the leases that a store has granted: deadline, renewal, release, loss, and Close. A store
//     implements [Requests] for it. The leases are of type [Life].
//   - [Leases.Call], [Call] and [Leases.Enter] count calls, and make every call fail with ErrClosed after Close.
//   - [Leases.Acquire] with a [Waiter] is a complete Acquire, which can wait.
//   - [Repeat] repeats a request until it is answered.
//   - [Leases.Abandon] and [Leases.Grant] clean up after a request whose outcome is unknown.
//   - [Encoding] turns keys into names for stores that restrict the bytes of a name.
//   - [ContextError], [NotOurs] and [Ended] distinguish the end of the caller's context from a time limit of the store.
//   - [Rule], [Apply] and [Findings] make a [backend.Examiner] from a table of rules.
package kit
