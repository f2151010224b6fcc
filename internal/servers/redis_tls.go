package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A TLSServer is a server that uses only TLS, with a certificate for 127.0.0.1 and localhost that the test has created.
type TLSServer struct {
	*Server
	CA  []byte         // the certificate that signed the server's own, in PEM
	CAs *x509.CertPool // contains CA
}

// Config returns a client configuration that trusts the server.
func (s *TLSServer) Config() *tls.Config {
	return &tls.Config{RootCAs: s.CAs, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

// RedisTLS starts a standalone Redis that listens only with TLS. args are additional options of redis-server.
func RedisTLS(t testing.TB, args ...string) *TLSServer {
	t.Helper()
	group := redisKind.source(t)
	cert, key, err := selfSigned()
	if err != nil {
		t.Fatalf("servers: make a certificate: %v", err)
	}
	s := &TLSServer{CA: cert, CAs: x509.NewCertPool()}
	s.CAs.AppendCertsFromPEM(cert)
	s.Server = group.startRedis(t, redisSpec{
		ask: resp{tls: s.Config(), password: option(args, "--requirepass")},
		tls: true,
		options: append([]string{"--tls-auth-clients", "no",
			"--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem", "--tls-ca-cert-file", "cert.pem"}, args...),
		files: map[string]string{"cert.pem": string(cert), "key.pem": string(key)},
	})
	return s
}

// CAFile writes the certificate to trust into a file of the test, and returns its path.
func (s *TLSServer) CAFile() string {
	s.t.Helper()
	return writeFile(s.t, filepath.Join(s.t.TempDir(), "ca.pem"), s.CA)
}

// selfSigned returns a new certificate that is its own authority, and its key, in PEM.
func selfSigned() (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "anylock test"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return cert, key, nil
}
