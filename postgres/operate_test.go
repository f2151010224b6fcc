package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Break works for an owner with any characters.
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

// If the holder renews its lease while Break runs, Break still ends the lease, and does not return ErrLost.
func TestBreakMeetsRenewal(t *testing.T) {
	t.Parallel()
	url := gentleURL(t)
	for mode, params := range variants {
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

// If the role may end the holder's session, but not see its owner, Break does not report that the owner has no lease.
func TestBreakOfUnseenOwner(t *testing.T) {
	t.Parallel()
	s := altered(t)
	admin := dialed(t, s.PostgresURL())
	var roles []string
	for _, rights := range []string{"ALTER ROLE %s LOGIN", "ALTER ROLE %s LOGIN; GRANT pg_signal_backend TO %[1]s"} {
		role := unprivileged(t, admin)
		if _, err := admin.Exec(t.Context(), fmt.Sprintf(rights, role)); err != nil {
			t.Fatal(err)
		}
		roles = append(roles, strings.Replace(s.PostgresURL(), "postgres@", role+"@", 1))
	}
	b, operator := opened(t, roles[0]), opened(t, roles[1])
	r := req("k", time.Minute)
	l := acquire(t, b, r)
	if err := operator.Break(t.Context(), r.Key, r.Owner); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("break of an owner that the role does not see: %v", err)
	}
	release(t, l)
	if err := operator.Break(t.Context(), r.Key, r.Owner); !errors.Is(err, backend.ErrLost) {
		t.Errorf("break of a free key: %v", err)
	}
}

// A meddler is a connection that calls meddle before it sends a statement that terminates a session.
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

// Break also ends a session that is executing a statement, such as a renewal that waits for the server.
func TestBreakOfABusySession(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL())
	operator := opened(t, s.PostgresURL()+brief)
	c := dialed(t, s.PostgresURL())
	r := req("k", time.Minute)
	l := acquire(t, b, r)
	h := l.(*kit.Life).Data.(*checkout)
	if err := h.s.acquireTurn(context.Background()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer h.s.releaseTurn()
		h.s.limit(context.Background(), time.Minute)
		_, err := h.s.simple(label(h.ttl, h.entry) + "SELECT pg_sleep(60)")
		done <- err
	}()
	until(t, soon, "the session is at work", func() bool {
		return query[int](t, c, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1::int AND state = 'active' AND query "+
			"LIKE '%pg_sleep%'", int(h.s.conn.PID())) == 1
	})
	if err := operator.Break(context.Background(), r.Key, r.Owner); err != nil {
		t.Error(err)
	}
	if err := <-done; !endedByServer(err) {
		t.Errorf("the session's work: %v", err)
	}
	lost(t, l, soon)
}
