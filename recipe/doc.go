// Package recipe provides common building blocks on top of locks: leader election ([Lead]), several keys at once
// ([AcquireAll]), a limit on concurrent holders ([Semaphore]), and readers and writers on stores without shared leases
// ([RW]).
//
// Each uses only leases of package lock, so it works on every store with the guarantees of that store: leases are
// renewed automatically, expire if their holder dies, report their loss, and carry fencing tokens. Everything is safe
// for concurrent use.
//
// Options are those of package lock and apply to each lease. AcquireAll applies lock.Shared to each key; the others
// refuse lock.Shared and lock.WithOwner with lock.ErrInvalid. An owner names one acquisition of a key, but they may
// acquire a key more than once. AcquireAll acquires each key once under that owner: use the owner for one call.
package recipe
