// Package eager fetches answers that come soon without putting a thread to sleep for them.
//
// A goroutine that waits for a socket lets its thread sleep, and waking one takes longer than a store that is near
// takes to answer. So whoever has just asked looks at the socket again and again for a moment, and lies down only then.
// That burns the time for which a thread would have slept, so it is done only where it pays:
//
//   - after a write, for the answer to it: what comes unasked is waited for asleep;
//   - for mostTime at most, and less and less often when answers do not come in that time (see pace);
//   - by one connection of the process at a time, and not where the process has one processor: that is the answerer's,
//     or that of the goroutines that could do something else. They are let run in between.
//
// Only the time at which data is fetched differs: deadlines, closing and errors are those of the connection.
package eager

import (
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// mostTime is for how long an answer is looked for. A thread's wake-up takes tens of microseconds: looking for much
	// longer gains little even if the answer comes then.
	mostTime = 100 * time.Microsecond
	// politeness is after how many looks others get to run. It wakes an idle processor to look for work, which takes as
	// long as several looks.
	politeness = 8
)

// looking is held by the one who looks at its socket.
var looking atomic.Bool

// alone reports whether only one goroutine runs at a time. The runtime counts in what a container may use, as two at
// the least: in one that may use less, looking costs time of others.
func alone() bool { return runtime.GOMAXPROCS(0) == 1 || runtime.NumCPU() == 1 }

// New returns c, eager if it is a socket, as of TCP. Wrap what is below TLS. Where nothing can be gained c is returned
// as it is.
func New(c net.Conn) net.Conn { return wrap(c) }
