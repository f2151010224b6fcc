//go:build !unix

package link

import "net"

// reserve finds a free port of 127.0.0.1. While the link refuses connections, another program may bind the port.
func reserve() (addr string, release func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	defer l.Close()
	return l.Addr().String(), func() {}, nil
}

// portSharing configures a listener on such a port.
var portSharing net.ListenConfig
