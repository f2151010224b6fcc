package servers

import (
	"fmt"
	"net"
	"testing"
)

// MemcachedTLS starts a memcached that uses TLS on its SecureAddr, and requires a certificate there.
func MemcachedTLS(t testing.TB) *ClientTLSServer {
	t.Helper()
	g := memcachedKind.source(t)
	ports := []int{g.port(t), g.port(t)}
	s, files := newClientTLS(t, loopback(ports[1]))
	l := memcachedLaunch(func(at place) []string {
		return []string{
			"-l", "notls:" + net.JoinHostPort(bindHost, at.ports[0]), "-l", net.JoinHostPort(bindHost, at.ports[1]), "-Z",
			"-o", fmt.Sprintf("ssl_chain_cert=%s,ssl_key=%s,ssl_ca_cert=%s,ssl_verify_mode=2", "cert.pem", "key.pem",
				"cert.pem"),
		}
	})
	command := l.command
	l.command = func(at place) ([]string, map[string]string) {
		args, _ := command(at)
		return args, files
	}
	l.ports = ports
	s.Server = g.start(t, l)
	return s
}
