package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func tlsURL(s *servers.ClientTLSServer) string {
	return "zookeepers://" + s.SecureAddr + "?cacert=" + s.CAFile() + "&cert=" + s.CertFile + "&key=" + s.KeyFile
}

// Over TLS, everything works as without it: the same locks, reconnects, waiters and watches.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeperTLS(t)
	b, plain := opened(t, tlsURL(s)), opened(t, "zookeeper://"+s.Addr)
	sess := b.onlySession(t)
	sess.mu.Lock()
	_, secure := sess.connection.Conn.(*tls.Conn)
	sess.mu.Unlock()
	if !secure {
		t.Error("the connection is not by TLS")
	}
	if !b.standalone {
		t.Error("the server was not asked what it is")
	}
	l := acquire(t, b, req("k", time.Minute))
	if _, err := plain.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("by another way: %v", err)
	}
	waiter := storetest.QueueUp(t, b, waiting("k", time.Minute), 1)
	cut(b)
	if err := l.Renew(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	release(t, l)
	l = storetest.Granted(t, waiter, soon).Lease
	if err := evict(t.Context(), plain, "k"); err != nil {
		t.Fatal(err)
	}
	storetest.Lost(t, l, soon)

	ca, certificate := "?cacert="+s.CAFile(), "&cert="+s.CertFile+"&key="+s.KeyFile
	for _, url := range []string{
		"zookeepers://" + s.SecureAddr + ca,                      // no certificate
		"zookeepers://" + s.SecureAddr + "?" + certificate[1:],   // an authority that this machine does not know
		"zookeepers://" + s.Addr + ca + certificate,              // a port without TLS
		"zookeeper://" + s.SecureAddr,                            // the TLS port, without TLS
		"zookeepers://127.0.0.2:1," + s.SecureAddr + ca + "&x=1", // an unknown parameter
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
		if c, err := openURL(ctx, url); err == nil {
			_ = c.Close()
			t.Errorf("%s: opened", url)
		} else if ctx.Err() != nil {
			t.Errorf("%s: %v", url, err)
		}
		cancel()
	}
}

func TestConformanceTLS(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "the suite once more, by TLS")
	url := tlsURL(servers.ZooKeeperTLS(t)) + "&session_timeout=6s"
	conformance.RunCore(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
			Cut:  cut,
		}
	}, "cuts")
}
