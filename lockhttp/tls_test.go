package lockhttp_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/lockhttp"
)

// An authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	root := &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = a.sign(root)
	return a
}

// sign completes and signs a certificate. The first certificate signs itself.
func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := c, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		a.t.Fatal(err)
	}
	return c, key
}

// issue issues a certificate for usage. change, if not nil, modifies it first.
func (a *authority) issue(name string, usage x509.ExtKeyUsage, change func(*x509.Certificate)) *tls.Certificate {
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	if change != nil {
		change(c)
	}
	signed, key := a.sign(c)
	return &tls.Certificate{Certificate: [][]byte{signed.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// A secure is a server on a real port with TLS that verifies certificates of clients as "anylock serve" does.
type secure struct {
	t         *testing.T
	authority *authority
	server    *lockhttp.Server
	address   string
}

func newSecure(t *testing.T, o lockhttp.Options) *secure {
	t.Helper()
	s := &secure{t: t, authority: newAuthority(t)}
	o.StartDelay = -1
	server, err := lockhttp.New(newLocks(t), o)
	if err != nil {
		t.Fatal(err)
	}
	s.server = server
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	h := lockhttp.NewHTTPServer(server, nil)
	h.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: s.authority.pool(),
		Certificates: []tls.Certificate{*s.authority.issue("server", x509.ExtKeyUsageServerAuth, func(c *x509.Certificate) {
			c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		})},
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.ServeTLS(listener, "", "")
	}()
	t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		h.Close()
		<-ended
	})
	return s
}

// client returns a client that presents cert, unless it is nil. The client uses only HTTP/2, or only HTTP/1.1.
func (s *secure) client(cert *tls.Certificate, http2 bool) *http.Client {
	config := &tls.Config{RootCAs: s.authority.pool()}
	if cert != nil { // even if the server has not named the authority of cert
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{TLSClientConfig: config, Protocols: protocols}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *secure) do(client *http.Client, method, target, token string) (code, major int, err error) {
	q, err := http.NewRequestWithContext(s.t.Context(), method, "https://"+s.address+target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := client.Do(q)
	if err != nil {
		return 0, 0, err
	}
	r.Body.Close()
	return r.StatusCode, r.ProtoMajor, nil
}

// A client can authenticate with a certificate of the server's authority, over HTTP/1.1 and HTTP/2, and may then do
// what its rights allow.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	const token = "token-of-ops-0123456789"
	s := newSecure(t, lockhttp.Options{Clients: []lockhttp.Client{
		{Name: "ci", Certificate: "ci.example.com", Rights: rights("ci/", lockhttp.Take)},
		{Name: "ops", Certificate: "ops.example.com", Token: token, Rights: rights("", lockhttp.Take, lockhttp.List)},
	}})
	clientCert := func(name string, change func(*x509.Certificate)) *tls.Certificate {
		return s.authority.issue(name, x509.ExtKeyUsageClientAuth, change)
	}
	ci := clientCert("ci.example.com", nil)
	foreign := newAuthority(t).issue("ci.example.com", x509.ExtKeyUsageClientAuth, nil)
	for _, http2 := range []bool{false, true} {
		for _, c := range []struct {
			name        string
			cert        *tls.Certificate
			token       string
			ciKey, list int // want; 0 means that the handshake fails
		}{
			{"its certificate", ci, "", 200, 403},
			{"a name in its certificate", clientCert("other", func(c *x509.Certificate) {
				c.DNSNames = []string{"a.example.com", "ops.example.com"}
			}), "", 423, 200},
			{"a certificate and another client's token", ci, token, 423, 200},
			{"a token alone", nil, token, 423, 200},
			{"nothing", nil, "", 401, 401},
			{"an unknown name", clientCert("evil.example.com", nil), "", 401, 401},
			{"a similar name", clientCert("CI.example.com ", nil), "", 401, 401},
			{"another authority", foreign, "", 0, 0},
			{"another authority and a token", foreign, token, 0, 0},
			{"a server's certificate", s.authority.issue("ci.example.com", x509.ExtKeyUsageServerAuth, nil), "", 0, 0},
			{"an expired certificate", clientCert("ci.example.com", func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
			}), "", 0, 0},
			{"a certificate of the future", clientCert("ci.example.com", func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
			}), "", 0, 0},
		} {
			client := s.client(c.cert, http2)
			for target, want := range map[string]int{of("ci/a", "owner", "o"): c.ciKey, "/v1/locks": c.list} {
				method := "PUT"
				if target == "/v1/locks" {
					method = "GET"
				}
				code, major, err := s.do(client, method, target, c.token)
				if code != want || (err != nil) != (want == 0) || err == nil && (major == 2) != http2 {
					t.Errorf("%s, HTTP/2 %v: %s %s: %d by HTTP/%d, %v, want %d",
						c.name, http2, method, target, code, major, err, want)
				}
			}
		}
		if code, _, err := s.do(s.client(ci, http2), "PUT", of("prod/a", "owner", "o"), ""); code != 403 {
			t.Errorf("a key outside of its rights: %d %v", code, err)
		}
	}
}

// A server with TLS refuses old versions of TLS, and requests without TLS.
func TestTLSOnly(t *testing.T) {
	t.Parallel()
	s := newSecure(t, lockhttp.Options{})
	conn, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: s.authority.pool(), MaxVersion: tls.VersionTLS11})
	if err == nil {
		conn.Close()
		t.Error("TLS 1.1 is accepted")
	}
	r, err := http.Get("http://" + s.address + "/v1/health")
	if err == nil {
		defer r.Body.Close()
	}
	if err != nil || r.StatusCode != http.StatusBadRequest {
		t.Errorf("a request in the clear: %v %v", r, err)
	}
	other := newAuthority(t)
	client := s.client(nil, true)
	client.Transport.(*http.Transport).TLSClientConfig.RootCAs = other.pool()
	if _, _, err := s.do(client, "GET", "/v1/health", ""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a client that trusts another authority: %v", err)
	}
}

// Many waiters share one HTTP/2 connection, and each wait ends with its request. A flood of requests that are cancelled
// at once does not keep other requests out.
func TestHTTP2Waiters(t *testing.T) {
	t.Parallel()
	s := newSecure(t, lockhttp.Options{Linger: time.Millisecond})
	client := s.client(nil, true)
	if code, major, err := s.do(client, "PUT", of("k", "owner", "holder", "ttl_ms", "60000"), ""); code != 200 ||
		major != 2 {
		t.Fatalf("%d by HTTP/%d: %v", code, major, err)
	}
	const waiters, rounds = 200, 5
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, waiters)
		for range waiters {
			go func() {
				target := of("k", "owner", rand.Text(), "wait_ms", "60000")
				q, err := http.NewRequestWithContext(ctx, "PUT", "https://"+s.address+target, nil)
				if err == nil {
					_, err = client.Do(q) //nolint:bodyclose // it never answers
				}
				ended <- err
			}()
		}
		s.await("all wait", func() bool {
			n, _, _, _, _ := s.server.InUse()
			return n == waiters || round > 0 // later rounds are cancelled at any moment
		})
		cancel()
		for range waiters {
			if err := <-ended; err == nil {
				t.Error("a waiter was answered")
			}
		}
		if code, _, err := s.do(client, "POST", path("k", "/renew", "owner", "holder", "ttl_ms", "60000"), ""); code != 200 {
			t.Errorf("the holder's renewal: %d %v", code, err)
		}
	}
	s.await("no waiter is left", func() bool {
		n, leases, _, claims, _ := s.server.InUse()
		return n == 0 && leases == 1 && claims == 1
	})
}

// await waits until holds returns true.
func (s *secure) await(what string, holds func() bool) {
	s.t.Helper()
	const patience = 30 * time.Second
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) { // sleeps: between two looks
		if time.Now().After(end) {
			n, leases, watchers, claims, callers := s.server.InUse()
			s.t.Fatalf("not in time: %s; %d waiters, %d leases, %d watchers, %d claims, %d callers",
				what, n, leases, watchers, claims, callers)
		}
	}
}
