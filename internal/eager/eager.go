// Package eager polls a connection for a reply that is expected soon, so that no thread has to sleep for it.
//
// While a goroutine waits for a socket, its thread sleeps. Waking a thread takes longer than a nearby store needs to
// reply. So after a write, the goroutine first polls the socket for a moment, and then sleeps. Polling uses processor
// time, so it is limited:
//
//   - Only the reply to a write is polled for. The goroutine sleeps while it waits for unsolicited data.
//   - Polling ends after mostTime, and becomes rarer if replies take longer (see pace).
//   - Only one connection of the process polls at a time. None polls if the process has one processor, which the server
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
	// mostTime is how long a connection polls for a reply. Waking a thread takes tens of microseconds, so polling for much
	// longer gains little even if the reply arrives then.
	mostTime = 100 * time.Microsecond
	// politeness is the number of polls after which other goroutines may run. Yielding wakes an idle processor to search
	// for work, which takes as long as several polls.
	politeness = 8
)

// looking is true while a connection polls.
var looking atomic.Bool

// alone reports whether only one goroutine runs at a time. GOMAXPROCS respects the processor limit of a container, but
// never drops below two for it. If the limit is lower than two, polling uses time that others need.
func alone() bool { return runtime.GOMAXPROCS(0) == 1 || runtime.NumCPU() == 1 }

// New returns a connection that polls if c is a socket, such as a TCP connection. Otherwise, or if polling cannot help,
// it returns c. With TLS, wrap the connection below TLS.
func New(c net.Conn) net.Conn { return wrap(c) }
