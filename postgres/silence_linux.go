package postgres

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is the option TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 18

// limitSilence lets the kernel end a connection on which what was sent is not acknowledged for as long as limit. By
// itself it would send it again for a quarter of an hour, and a wait in the server's queue has no limit of its own.
func limitSilence(c *net.TCPConn, limit time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(limit.Milliseconds()))
	})
}
