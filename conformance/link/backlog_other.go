//go:build !linux

package link

import (
	"errors"
	"net"
)

// setBacklog would set the length of the kernel's queue of connections that wait for Accept. It is implemented on Linux
// only.
func setBacklog(*net.TCPListener, int) error { return errors.ErrUnsupported }
