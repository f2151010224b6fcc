package pgtable

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// A host that accepts connections and never replies does not use up the time of the next host, as after a failover.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	url := strings.Replace(tableURL(s), s.Addr, silent.Addr().String()+","+s.Addr, 1)
	b := opened(t, url+"&target_session_attrs=primary&lock_table=silent_host"+patient)
	release(t, acquire(t, b, req("k", time.Minute)))
}

// A server that was silent while requests waited for a connection is used again when it replies.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	p := storetest.NewProxy(t, s.Addr)
	url := strings.Replace(tableURL(s), s.Addr, p.Addr, 1) + "&lock_table=silent_server&lock_max_conns=1&timeout=2s"
	storetest.OutlivesSilence(t, opened(t, url), p)
}

// A countedConn counts itself in open until it is closed.
type countedConn struct {
	net.Conn
	once *sync.Once
	open *atomic.Int32
}

func (c countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// While the server is silent, a process has at most its connections, and a cancel request for each. Soon after Close it
// has none.
func TestConnectionsToSilentServer(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	p := storetest.NewProxy(t, s.Addr)
	config, err := pgx.ParseConfig(strings.Replace(s.PostgresURL(), s.Addr, p.Addr, 1))
	if err != nil {
		t.Fatal(err)
	}
	const conns, timeout, silence = 2, time.Second, 6 * time.Second
	var open, most atomic.Int32
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		for n := open.Add(1); n > most.Load(); {
			most.CompareAndSwap(most.Load(), n)
		}
		return countedConn{c, new(sync.Once), &open}, nil
	}
	db := sql.OpenDB(newConnector(&config.Config, timeout, conns))
	db.SetMaxOpenConns(conns)
	defer db.Close()
	opens := func() (b *sqltable.Backend, err error) {
		return sqltable.New(t.Context(), db, sqltable.Postgres, &sqltable.Options{Table: "silent_conns", Timeout: timeout})
	}
	b, err := opens()
	for end := time.Now().Add(6 * soon); err != nil && time.Now().Before(end); { // the machine may be busy
		b, err = opens()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	var all sync.WaitGroup
	for range 2 * conns {
		all.Go(func() {
			for end := time.Now().Add(silence); time.Now().Before(end); {
				if _, err := b.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, backend.ErrUnavailable) {
					t.Errorf("a silent server: %v, want ErrUnavailable", err)
				}
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > 2*conns {
		t.Errorf("%d connections at once, want at most %d, and a cancel request for each", n, conns)
	}
	if err := errors.Join(b.Close(), db.Close()); err != nil {
		t.Error(err)
	}
	storetest.Until(t, 2*timeout+soon, "no connection is open", func() bool { return open.Load() == 0 })
}

// The server may end connections that are idle. Requests are repeated on new ones.
func TestIdleSessionTimeout(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	c := dialed(t, s.PostgresURL())
	exec(t, c, `DO $$ BEGIN CREATE ROLE sleepy LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN END $$`,
		`ALTER ROLE sleepy SET idle_session_timeout = '200ms'`)
	b := opened(t, strings.Replace(tableURL(s), "postgres@", "sleepy@", 1)+"&lock_table=idle_session"+patient)
	rest := func() {
		storetest.Until(t, 2*soon, "the server has ended the idle connections", func() (ended bool) {
			err := c.QueryRow(t.Context(), `SELECT count(*)=0 FROM pg_stat_activity WHERE usename='sleepy'`).Scan(&ended)
			return err == nil && ended
		})
	}
	rest()
	l := acquire(t, b, req("k", time.Minute))
	rest()
	if err := l.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("renew: %v", err)
	}
	rest()
	release(t, l)
}

// A role may have an old default for the output of bytea.
func TestByteaOutput(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	exec(t, dialed(t, s.PostgresURL()), `CREATE ROLE legacy LOGIN SUPERUSER`,
		`ALTER ROLE legacy SET bytea_output = escape`)
	b := opened(t, strings.Replace(tableURL(s), "postgres@", "legacy@", 1)+"&lock_table=bytea_output"+patient)
	key := "\x00a\\b\\x\n\x7f\xff'ä"
	r := req(key, time.Minute)
	held := acquire(t, b, r)
	if h, err := b.Inspect(t.Context(), key); h.Owner != r.Owner || err != nil {
		t.Errorf("a held key: %+v, %v", h, err)
	}
	if keys, err := b.List(t.Context(), ""); len(keys) != 1 || keys[0] != key || err != nil {
		t.Errorf("list: %q, %v", keys, err)
	}
	if _, err := b.Acquire(t.Context(), req(key, time.Minute)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a held key: %v, want ErrHeld", err)
	}
	release(t, held)
}
