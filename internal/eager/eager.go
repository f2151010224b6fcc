// Package eager polls a connection for a reply that is expected soon, so that no thread has to sleep for it.
//
// While a goroutine waits for a socket, its thread sleeps, and waking a thread takes longer than a nearby store needs
// to reply. So after a write the goroutine polls the socket for a moment, and sleeps only then. Polling uses processor
// time, so it is limited:
//
//   - Only the reply to a write is polled for; unsolicited data is waited for asleep.
//   - Polling ends after mostTime, and becomes rarer if replies take longer (see pace).
//   - Only one connection of the process polls at a time, and none if the process has one processor, which the server
//     or other goroutines need. Other goroutines may run between two polls.
//
// Only the time at which data is read differs: deadlines, closing and errors are those of the connection.
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
