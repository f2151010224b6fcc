package postgres

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is the option TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 18

// limitSilence makes the kernel close a connection if sent data is not acknowledged within limit. By default, the
// kernel retransmits for a quarter of an hour, and a wait in the server's queue has no time limit.
func limitSilence(c *net.TCPConn, limit time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(limit.Milliseconds()))
	})
}
