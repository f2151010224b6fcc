package postgres

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A lease that shares its connection with another cannot be broken without it, and is left alone.
func TestBreakSparesSharedConnection(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL()+"&lock_share=10s")
	operator := opened(t, s.PostgresURL())
	// Leases share a connection where one is free for it, so that two of many do.
	owners := make(map[string]backend.Lease)
	for range 8 {
		r := req(backend.NewOwner(), 10*time.Second)
		owners[r.Key] = acquire(t, b, r)
	}
	refused := 0
	for key, l := range owners {
		h, err := operator.Inspect(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		switch err := operator.Break(context.Background(), key, h.Owner); {
		case err == nil:
			if err := l.Renew(context.Background(), 10*time.Second); !errors.Is(err, backend.ErrLost) {
				t.Errorf("a lease that was broken: %v, want ErrLost", err)
			}
			continue
		case !errors.Is(err, backend.ErrUnsupported):
			t.Errorf("%v, want ErrUnsupported", err)
		}
		refused++
		if err := l.Renew(context.Background(), 10*time.Second); err != nil {
			t.Errorf("a lease that was not broken: %v", err)
		}
		release(t, l)
	}
	if refused == 0 {
		t.Error("no two leases have shared a connection")
	}
}

// An owner may hold any character.
func TestBreakOddOwner(t *testing.T) {
	t.Parallel()
	b := opened(t, gentleURL(t))
	r := req(backend.NewOwner(), time.Minute)
	r.Owner = "a=b c/*d*/é"
	l := acquire(t, b, r)
	if err := b.Break(context.Background(), r.Key, r.Owner); err != nil {
		t.Fatal(err)
	}
	lost(t, l, soon)
}

// A holder that renews while its lease is being broken does not make Break say that it has none.
func TestBreakMeetsRenewal(t *testing.T) {
	t.Parallel()
	url := gentleURL(t)
	for mode, params := range bothModes {
		b := opened(t, url+params)
		r := req(backend.NewOwner(), time.Minute)
		l := acquire(t, b, r)
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		dial := config.DialFunc
		config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			return meddler{c, func() {
				once.Do(func() {
					if err := l.Renew(context.Background(), time.Minute); err != nil {
						t.Error(err)
					}
				})
			}}, err
		}
		operator, err := New(context.Background(), config, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer operator.Close()
		if err := operator.Break(context.Background(), r.Key, r.Owner); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		lost(t, l, soon)
	}
}

// A meddler is a connection on which something is done before a session is ended.
type meddler struct {
	net.Conn
	meddle func()
}

func (m meddler) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("pg_terminate_backend")) {
		m.meddle()
	}
	return m.Conn.Write(p)
}

// A neighbour that was refused, or has been released, does not keep a lease from being broken.
func TestBreakAfterNeighbours(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL()+"&lock_share=10s")
	operator := opened(t, s.PostgresURL())
	acquire(t, operator, req("busy", time.Minute))
	for what, meet := range map[string]func(){
		"refused": func() {
			if _, err := b.Acquire(context.Background(), req("busy", 10*time.Second)); !errors.Is(err, backend.ErrHeld) {
				t.Errorf("%v, want ErrHeld", err)
			}
		},
		"released": func() { release(t, acquire(t, b, req("free", 10*time.Second))) },
	} {
		r := req(what, 10*time.Second)
		l := acquire(t, b, r)
		meet()
		if err := operator.Break(context.Background(), r.Key, r.Owner); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		lost(t, l, soon)
	}
}

// A holder whose session is at work is not ended before it has said what it did, and Break tells why.
func TestBreakOfABusySession(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL())
	operator := opened(t, s.PostgresURL()+"&timeout=1s")
	c := dialed(t, s.PostgresURL())
	r := req("k", time.Minute)
	l := acquire(t, b, r)
	h := l.(*kit.Life).Data.(*held)
	if err := h.s.take(context.Background()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer h.s.give()
		h.s.limit(time.Minute)
		_, err := h.s.simple(h.s.labelNow(h.ttl) + "SELECT pg_sleep(60)")
		done <- err
	}()
	until(t, soon, "the session is at work", func() bool {
		return query[int](t, c, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::int AND state = 'active' AND query LIKE '%pg_sleep%'", h.s.server.pid) == 1
	})
	err := operator.Break(context.Background(), r.Key, r.Owner)
	if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "at work") {
		t.Errorf("%v, want that the session is at work", err)
	}
	_ = query[bool](t, c, "SELECT pg_cancel_backend($1::int)", h.s.server.pid)
	if err := <-done; code(err) == "" {
		t.Errorf("the session's work: %v", err)
	}
	if err := operator.Break(context.Background(), r.Key, r.Owner); err != nil {
		t.Error(err)
	}
	lost(t, l, soon)
}
