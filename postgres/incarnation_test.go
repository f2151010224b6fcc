package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// In transaction mode a lock and its token come by different connections. Where the server has been replaced in between, the lock
// went with the old one, and the key may be somebody else's on the new one: the token grants nothing.
func TestTokenOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t)
	replace := s.RestartEmpty()
	if replace == nil {
		servers.Missing(t, "the server cannot be emptied")
	}
	const key, ttl, limit = "k", time.Minute, 20 * time.Second
	params := "&lock_mode=transaction&timeout=" + limit.String()
	var (
		conns   atomic.Int32
		arrived = make(chan struct{})
		reaches = make(chan struct{})
	)
	p := storetest.NewRelay(t, "127.0.0.1:0", s.Addr, func(r *storetest.Relay, client, server net.Conn) {
		defer client.Close()
		if conns.Add(1) == 2 { // that of the token reaches the server late
			close(arrived)
			_ = server.Close()
			<-reaches
			var err error
			if server, err = net.Dial("tcp", s.Addr); err != nil {
				return
			}
		}
		r.Go(func() {
			defer client.Close()
			_, _ = io.Copy(client, server)
		})
		defer server.Close()
		_, _ = io.Copy(server, client)
	})
	b := opened(t, "postgres://postgres@"+p.Addr+"/postgres?sslmode=disable"+params)
	attempt := startAcquire(context.Background(), b, req(key, ttl))
	select {
	case <-arrived:
	case <-time.After(soon):
		t.Error("no second connection is made for the token")
	}
	replace()
	held := acquire(t, opened(t, s.PostgresURL()+params), req(key, ttl))
	close(reaches)
	var o outcome
	select {
	case o = <-attempt:
	case <-time.After(limit):
		t.Fatalf("no answer within %v", limit)
	}
	if o.Err == nil {
		t.Fatalf("granted until %v from now, as another owner has the key until %v from now",
			time.Until(o.Lease.Deadline()), time.Until(held.Deadline()))
	}
	if !errors.Is(o.Err, backend.ErrHeld) && !errors.Is(o.Err, backend.ErrUnavailable) {
		t.Error(o.Err)
	}
	release(t, held)
}
