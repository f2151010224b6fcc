// Package probe tests readers and writers in several processes, which are killed, stopped and cut off from the store
// for a chosen time. "make probe" runs the test; without the build tag "probe" the package is empty.
//
// The processes write their leases into a journal. Program checkjournal, which contains no code of the library, checks
// the journal afterwards. Package journal defines from when until when a lease counts.
package probe
