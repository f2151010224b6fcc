//go:build unix

package main

import (
	"net"
	"syscall"
)

// listenPrivately creates a socket that no other user can open, not even before its mode is changed. It changes the
// umask of the process, so call it before other goroutines create files.
func listenPrivately(path string) (net.Listener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}
