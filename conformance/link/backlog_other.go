//go:build !linux

package link

import (
	"errors"
	"net"
)

// setBacklog sets how many connections the kernel makes that nobody accepts, where that is possible.
func setBacklog(*net.TCPListener, int) error { return errors.ErrUnsupported }
