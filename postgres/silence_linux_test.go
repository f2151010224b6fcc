package postgres

import (
	"syscall"
	"testing"
)

// If the path of a connection dies while a request is unacknowledged, the kernel closes the connection after half a
// minute. The test checks only the socket option, because the effect would need a path that drops packets.
func TestSilenceIsLimited(t *testing.T) {
	t.Parallel()
	b := opened(t, shared(t).PostgresURL())
	s := only(t, b)
	defer s.releaseTurn()
	conn := s.wire()
	if replied, ok := conn.(*repliedConn); ok {
		conn = replied.Conn
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		t.Fatalf("a connection of type %T", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var limit int
	cerr := raw.Control(func(fd uintptr) {
		limit, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	})
	if cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if limit != 30000 {
		t.Errorf("TCP_USER_TIMEOUT is %d ms", limit)
	}
}
