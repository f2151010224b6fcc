package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"testing"
)

// A ClientTLSServer is a server that uses TLS and requires a certificate from its clients.
type ClientTLSServer struct {
	*TLSServer
	SecureAddr        string // the address with TLS
	CertFile, KeyFile string // the client's
}

// ZooKeeperTLS starts a standalone ZooKeeper that uses TLS on its SecureAddr, and requires a certificate there.
func ZooKeeperTLS(t testing.TB, lines ...string) *ClientTLSServer {
	t.Helper()
	g := zooKeeperKind.source(t)
	ports := []int{g.port(t), g.port(t)}
	l := g.zooKeeper(append([]string{
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		fmt.Sprint("secureClientPort=", ports[1]), "secureClientPortAddress=" + bindHost, "ssl.clientAuth=need",
		"ssl.keyStore.location=./server.pem", "ssl.keyStore.type=PEM", "ssl.trustStore.location=./ca.pem",
		"ssl.trustStore.type=PEM",
	}, lines...), "")
	s, files := newClientTLS(t, loopback(ports[1]))
	l.ports = ports
	command := l.command
	l.command = func(at place) (args []string, all map[string]string) {
		args, all = command(at)
		all["server.pem"], all["ca.pem"] = files["key.pem"]+files["cert.pem"], files["cert.pem"]
		return args, all
	}
	pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		t.Fatalf("servers: read a certificate: %v", err)
	}
	config := s.Config()
	config.Certificates = []tls.Certificate{pair}
	l.ready = func(ctx context.Context, plain *Server) error {
		if err := zooKeeperReady(ctx, plain); err != nil {
			return err
		}
		// The server opens this port last, and its first handshake is slow.
		conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", s.SecureAddr)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	s.Server = g.start(t, l)
	return s
}

// newClientTLS creates the certificates of a server and its clients, which trust each other, and the server's files.
func newClientTLS(t testing.TB, addr string) (s *ClientTLSServer, files map[string]string) {
	t.Helper()
	cert, key, err := selfSigned()
	if err != nil {
		t.Fatalf("servers: make a certificate: %v", err)
	}
	dir := t.TempDir()
	s = &ClientTLSServer{
		TLSServer:  &TLSServer{CA: cert, CAs: x509.NewCertPool()},
		SecureAddr: addr,
		CertFile:   writeFile(t, filepath.Join(dir, "client.pem"), cert),
		KeyFile:    writeFile(t, filepath.Join(dir, "client-key.pem"), key),
	}
	s.CAs.AppendCertsFromPEM(cert)
	return s, map[string]string{"cert.pem": string(cert), "key.pem": string(key)}
}
