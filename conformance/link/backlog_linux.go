package link

import (
	"net"
	"syscall"
)

// setBacklog sets how many connections the kernel makes that nobody accepts. On Linux, listen may be called again for
// that.
func setBacklog(l *net.TCPListener, n int) error {
	conn, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), n) }); err != nil {
		return err
	}
	return failed
}
