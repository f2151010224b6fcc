// Package probe has a test of readers and writers in several processes, which are killed, stopped and cut off from the
// store for as long as one wants. "make probe" runs it; without the build tag "probe" the package is empty.
//
// The processes write what they hold into a journal. Program checkjournal, which contains no code of the library, reads
// the journal afterwards: see package journal for what counts as held.
package probe
