//go:build unix

package link

import (
	"net"
	"net/netip"
	"os"
	"syscall"
)

// reserve binds a socket that never listens to a free port of 127.0.0.1. No other program can bind the port until
// release is called. While nobody listens on the port, the kernel refuses connections. A listener configured by
// portSharing can share the port.
func reserve() (addr string, release func(), err error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	release = func() { _ = syscall.Close(fd) }
	loopback := [4]byte{127, 0, 0, 1}
	if err = share(fd); err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Addr: loopback}))
	}
	if err != nil {
		release()
		return "", nil, err
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		release()
		return "", nil, os.NewSyscallError("getsockname", err)
	}
	port := uint16(bound.(*syscall.SockaddrInet4).Port)
	return netip.AddrPortFrom(netip.AddrFrom4(loopback), port).String(), release, nil
}

// share allows two sockets to be bound to one port if at most one of them listens.
func share(fd int) error {
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, sharedPort, 1))
}

// portSharing configures a listener on a reserved port.
var portSharing = net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = share(int(fd)) }); err != nil {
		return err
	}
	return failed
}}
