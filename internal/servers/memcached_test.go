package servers

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMemcached(t *testing.T) {
	s := Memcached(t, "-m", "8")
	ask := func() map[string]string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stats, err := MemcachedStats(ctx, s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		return stats
	}
	first := ask()
	if first["limit_maxbytes"] != "8388608" {
		t.Errorf("limit_maxbytes is %s: the test's own options are not used", first["limit_maxbytes"])
	}
	s.Kill()
	s.Start()
	if again := ask(); again["pid"] == first["pid"] {
		t.Errorf("process %s after a restart, as before", again["pid"])
	}
	s.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := MemcachedStats(ctx, s.Addr); err == nil {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	ask()
}

// When Freeze returns, the server no longer serves requests, however busy the server and the machine are.
func TestFreezeIsOver(t *testing.T) {
	s := Memcached(t)
	const clients = 8
	var answers [clients]atomic.Int64
	var conns []net.Conn
	var wg sync.WaitGroup
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
		wg.Wait()
	}()
	for i := range clients {
		conn, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		wg.Go(func() {
			in := bufio.NewReader(conn)
			for {
				if _, err := conn.Write([]byte("version\r\n")); err != nil {
					return
				}
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
				answers[i].Add(1)
			}
		})
	}
	for range 100 {
		var before [clients]int64
		s.Freeze()
		for i := range before {
			before[i] = answers[i].Load()
		}
		time.Sleep(10 * time.Millisecond) // sleeps: the time in which a frozen server must not reply
		for i := range before {
			if n := answers[i].Load() - before[i]; n > 1 { // one reply may have been on its way
				t.Errorf("a frozen server has served %d requests of a client", n)
			}
		}
		frozen := answers[0].Load()
		s.Thaw()
		for end := time.Now().Add(10 * time.Second); answers[0].Load() == frozen; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("a thawed server does not answer")
			}
		}
	}
}

// A server with TLS serves only clients that have a certificate.
func TestMemcachedTLS(t *testing.T) {
	s := MemcachedTLS(t)
	servesCertificates(t, s, "version\r\n", "VERSION")
}

// servesCertificates checks that s serves a client with its certificate, and none without.
func servesCertificates(t *testing.T, s *ClientTLSServer, question, answer string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, certificates := range [][]tls.Certificate{{pair}, nil} {
		config := s.Config()
		config.Certificates = certificates
		got := make([]byte, len(answer))
		conn, err := tls.Dial("tcp", s.SecureAddr, config)
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = conn.Write([]byte(question))
			_, err = io.ReadFull(conn, got)
			_ = conn.Close()
		}
		if served := err == nil && string(got) == answer; served != (certificates != nil) {
			t.Errorf("%d certificates: %q, %v", len(certificates), got, err)
		}
	}
}
