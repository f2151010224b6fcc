//go:build solaris || illumos

package link

import "syscall"

// sharedPort is the socket option by which two sockets share a port if at most one of them listens.
const sharedPort = syscall.SO_REUSEADDR
