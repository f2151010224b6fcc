package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// Ports are below the range of ephemeral ports (32768 on Linux, 49152 elsewhere). So no outgoing connection uses the
// port of a server that is being restarted, and a client that dials a dead server cannot connect to itself.
const (
	portFirst = 11000
	portCount = 10000
	busOffset = 10000 // a Redis Cluster node listens on its port + 10000 too
)

// claimHost is a second loopback address. A listener there claims the port among test processes, from before the server
// starts to the end of the test, including restarts. Linux has all of 127/8; other systems make no claims.
const claimHost = "127.0.0.2"

// freePort returns a free port of 127.0.0.1 whose port busOffset above is free too.
func freePort(t testing.TB) int {
	t.Helper()
	const attempts = 200
	var err error
	for range attempts {
		port := portFirst + rand.IntN(portCount)
		var claim net.Listener
		if claim, err = claimPort(port); err != nil {
			continue
		}
		if err = errors.Join(bindable(port), bindable(port+busOffset)); err != nil {
			if claim != nil {
				_ = claim.Close()
			}
			continue
		}
		if claim != nil {
			t.Cleanup(func() { _ = claim.Close() })
		}
		return port
	}
	t.Fatalf("servers: no free port after %d attempts: %v", attempts, err)
	return 0
}

// UnusedAddr returns an address of this machine on which nobody listens. No server of a test process gets its port, and
// no outgoing connection, until the test ends.
func UnusedAddr(t testing.TB) string {
	t.Helper()
	return loopback(freePort(t))
}

// claimPort claims port among test processes. It returns nil if there is no second loopback address.
func claimPort(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", claimHost, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, err
	}
	if err != nil {
		return nil, nil //nolint:nilerr // no such address: go without
	}
	return l, nil
}

func bindable(port int) error {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return err
	}
	return l.Close()
}

// bindHost is the address that every server listens on.
const bindHost = "127.0.0.1"

func loopback(port int) string { return fmt.Sprintf("%s:%d", bindHost, port) }
