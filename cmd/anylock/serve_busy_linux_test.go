package main

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A server does not replace the socket of a server that is too busy to accept connections.
func TestServeSparesBusySocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		var c net.Conn
		if c, err = net.Dial("unix", path); err != nil {
			break
		}
		defer c.Close()
	}
	if err == nil {
		t.Fatal("connections are accepted that no server accepts: the test proves nothing")
	}
	if l, err := listenUnix(path); err == nil {
		l.Close()
		t.Error("a second server listens")
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the socket of a busy server: ", err)
	}
}
