// Package skew sets a wrong wall clock for one process of this machine, for tests. The monotonic clock of the process,
// and the clocks of all other processes, do not change.
package skew

import "errors"

// ErrRuns means that a thread of the process is running, or was stopped while it read the clock. Let the process run
// for a moment, and retry.
var ErrRuns = errors.New("it runs, or reads the clock")
