//go:build unix

package main

import (
	"net"
	"syscall"
)

// listenPrivately creates a socket that no other user can open, not even between its creation and a change of its mode.
// It changes the umask of the process, and is called before other goroutines create files.
func listenPrivately(path string) (net.Listener, error) {
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	return net.Listen("unix", path)
}
