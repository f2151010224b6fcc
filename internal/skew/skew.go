// Package skew sets a wrong wall clock for one process of this machine, for tests. Its monotonic clock, and the
// clocks of all other processes, stay as they are.
package skew

import "errors"

// ErrRuns says that a thread of the process runs, or was stopped while it read the clock. Let it run for a moment, and
// try again.
var ErrRuns = errors.New("it runs, or reads the clock")
