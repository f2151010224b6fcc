package link

import (
	"net"
	"syscall"
)

// setBacklog sets the length of the kernel's queue of connections that wait for Accept. On Linux, listen may be called
// again to change it.
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
