//go:build unix && !linux && !solaris && !illumos

package link

import "syscall"

// sharedPort is the socket option by which two sockets share a port.
const sharedPort = syscall.SO_REUSEPORT
