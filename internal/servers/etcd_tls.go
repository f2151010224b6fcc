package servers

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"
)

// An EtcdTLSServer is an etcd that speaks TLS only and requires a certificate from its clients.
type EtcdTLSServer struct {
	*TLSServer
	CertFile, KeyFile string // the client's
}

// EtcdTLS starts an etcd whose clients need TLS and a certificate.
func EtcdTLS(t testing.TB) *EtcdTLSServer {
	t.Helper()
	g := etcdKind.source(t)
	cert, key, err := selfSigned()
	if err != nil {
		t.Fatalf("servers: make a certificate: %v", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatalf("servers: read a certificate: %v", err)
	}
	s := &EtcdTLSServer{TLSServer: &TLSServer{CA: cert, CAs: x509.NewCertPool()}}
	s.CAs.AppendCertsFromPEM(cert)
	spec := g.newEtcdSpec(t)
	spec.options = []string{"--cert-file", "cert.pem", "--key-file", "key.pem", "--trusted-ca-file", "cert.pem",
		"--client-cert-auth"}
	spec.files = map[string]string{"cert.pem": string(cert), "key.pem": string(key)}
	spec.client.tls = s.Config()
	spec.client.tls.Certificates = []tls.Certificate{pair}
	s.Server = g.start(t, spec.launch())
	dir := t.TempDir()
	s.CertFile = writeFile(t, filepath.Join(dir, "client.pem"), cert)
	s.KeyFile = writeFile(t, filepath.Join(dir, "client-key.pem"), key)
	return s
}
