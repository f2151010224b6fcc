package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func tlsURL(s *servers.ClientTLSServer) string {
	return "memcacheds://" + s.SecureAddr + "?cacert=" + s.CAFile() + "&cert=" + s.CertFile + "&key=" + s.KeyFile
}

// With TLS, the locks are the same, and broken connections are replaced. Opening fails if a certificate is missing or
// untrusted, or if only one side uses TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := servers.MemcachedTLS(t)
	b, plain := opened(t, tlsURL(s)), opened(t, "memcached://"+s.Addr)
	eachConn(b, func(c net.Conn) {
		if _, secure := c.(*tls.Conn); !secure {
			t.Error("the connection is not by TLS")
		}
	})
	l := acquire(t, b, req("k", time.Minute))
	isHeld(t, plain, "k")
	waiter := storetest.Start(t.Context(), b, waiting("k", time.Minute))
	eachConn(b, func(c net.Conn) { _ = c.Close() })
	if err := l.Renew(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	release(t, l)
	release(t, storetest.Granted(t, waiter, soon).Lease)

	ca, certificate := "?cacert="+s.CAFile(), "&cert="+s.CertFile+"&key="+s.KeyFile
	for _, url := range []string{
		"memcacheds://" + s.SecureAddr + ca,                    // no certificate
		"memcacheds://" + s.SecureAddr + "?" + certificate[1:], // an authority that this machine does not trust
		"memcacheds://" + s.Addr + ca + certificate,            // TLS only in the URL
		"memcached://" + s.SecureAddr,                          // TLS only on the port
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
		if c, err := openURL(ctx, url); err == nil {
			_ = c.Close()
			t.Errorf("%s: opened", url)
		} else if ctx.Err() != nil || errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v", url, err)
		} else {
			t.Logf("%s: %v", url, err)
		}
		cancel()
	}
}

// eachConn calls f for each idle connection.
func eachConn(b *Backend, f func(c net.Conn)) {
	p := b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.mu.Lock()
		f(c.conn)
		c.mu.Unlock()
	}
}

func TestConformanceTLS(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "the suite once more, by TLS")
	s := servers.MemcachedTLS(t)
	url := tlsURL(s)
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open:  func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
			Evict: func(_ context.Context, key string) error { return evict(s.Addr, key) },
		}
	})
}
