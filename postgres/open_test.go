package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// Invalid URLs are refused before any request, with an error that does not show the password.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	for url, hint := range map[string]string{
		"postgres://u:hunter2@h/db?lock_timeout=1s": `unknown parameter "lock_timeout"; known: lock_durable, lock_max_leases, timeout`,
		"postgres:h/db":                                "postgres://",
		"postgres://h:x/":                              "port",
		"postgres://u:hunter2@h/db?lock_tabel=x":       "unknown parameter",
		"postgres://u:hunter2@h/db?lock_max_leases=0":  "from 4",
		"postgres://u:hunter2@h/db?lock_max_leases=1":  "from 4",
		"postgres://u:hunter2@h/db?lock_max_leases=-1": "from 4",
		"postgres://u:hunter2@h/db?timeout=0s":         "not a positive",
		"postgres://u:hunter2@h/db?lock_durable=maybe": "durable",
		"postgres://u:hunter2@h/db?sslmode=maybe":      "sslmode",
		"postgres://u:hunter2@h:99999/db":              "port",
		"postgres://u:hunter2@h/db?connect_timeout=x":  "connect_timeout",
	} {
		begun := time.Now()
		_, err := openURL(context.Background(), url)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), hint) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want ErrInvalid that speaks of %q", driver.Redact(url), err, hint)
		}
		if time.Since(begun) > time.Second {
			t.Errorf("%s: a request was made", driver.Redact(url))
		}
	}
	for _, o := range []Options{
		{MaxLeases: -1}, {Timeout: -1}, {Timeout: backend.MaxTTL + 1},
	} {
		if _, err := New(context.Background(), &pgx.ConnConfig{}, &o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	dials := pgconn.Config{DialFunc: new(net.Dialer).DialContext}
	for _, config := range []*pgx.ConnConfig{nil, {}, {Config: dials}} {
		if _, err := New(context.Background(), config, nil); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", config, err)
		}
	}
}

// New accepts a configuration whose RuntimeParams are nil, and does not change it.
func TestNoRuntimeParams(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(gentleURL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams = nil
	b, err := New(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	release(t, acquire(t, b, req(backend.NewOwner(), time.Minute)))
	if config.RuntimeParams != nil {
		t.Errorf("the caller's configuration has %v", config.RuntimeParams)
	}
}

// Opening fails if the server is down, does not reply, or refuses the login, with an error that does not show the
// password.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never replies
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	if _, err := c.Exec(context.Background(), "CREATE ROLE guarded LOGIN PASSWORD 'right'"); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, opened(t, "postgres://guarded:right@"+s.Addr+"/"+s.name), req("k", time.Minute)))
	for url, hint := range map[string]string{
		"postgres://u:hunter2@" + closed + "/db?sslmode=disable":                 "refused",
		"postgres://u:hunter2@" + silent.Addr().String() + "/db?sslmode=disable": "deadline",
		"postgres://guarded:hunter2@" + s.Addr + "/postgres?sslmode=disable":     "password authentication failed",
		"postgres://postgres:hunter2@" + s.Addr + "/nowhere?sslmode=disable":     "does not exist",
	} {
		patience := 30 * time.Second
		if hint == "deadline" {
			patience = time.Second
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		b, err := openURL(ctx, url)
		cancel()
		if err == nil {
			_ = b.Close()
			t.Errorf("%s: opened", driver.Redact(url))
			continue
		}
		if !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want it to speak of %q", driver.Redact(url), err, hint)
		}
	}
}

// URLs with several hosts or with sockets, which pgx handles, work.
func TestURLForms(t *testing.T) {
	t.Parallel()
	s := shared(t)
	host, port, _ := net.SplitHostPort(s.Addr)
	urls := []string{
		"POSTGRES://postgres@" + s.Addr + "/" + s.name,
		"postgresql://postgres@" + closed + "," + s.Addr + "/" + s.name +
			"?target_session_attrs=primary&sslmode=disable",
		"postgres:///" + s.name + "?host=" + host + "&port=" + port + "&user=postgres&lock_max_leases=5",
	}
	if s.Dir != "" {
		urls = append(urls, "postgres://postgres@"+strings.ReplaceAll(s.Dir+"/data", "/", "%2F")+":"+port+"/"+s.name)
	}
	for _, url := range urls {
		release(t, acquire(t, opened(t, url), req("k", time.Minute)))
	}
}

// A host that does not reply leaves enough time for the other hosts.
func TestSilentHost(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := shared(t)
	b := opened(t, "postgres://postgres@"+silent.Addr().String()+","+s.Addr+"/"+s.name+"?sslmode=disable&target_session_attrs=primary")
	release(t, acquire(t, b, req("k", time.Minute)))
}

// A silent address of a host leaves enough time for the host's other addresses.
func TestSilentAddress(t *testing.T) {
	t.Parallel()
	s := shared(t)
	config := parsed(t, s.PostgresURL())
	const silent = "192.0.2.1:5432"
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{silent, s.Addr}, nil }
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == silent {
			<-ctx.Done() // as if a firewall dropped all packets
			return nil, ctx.Err()
		}
		return dial(ctx, network, addr)
	}
	storetest.ThreeTries(t, func() error {
		b, err := New(context.Background(), config, nil)
		if err == nil {
			err = b.Close()
		}
		return err
	})
}

// A pooler is refused in each of its modes, with an error that names the store to use instead.
func TestPoolersAreRefused(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, mode := range []string{"session", "transaction", "statement"} {
		bouncer := servers.PgBouncer(t, s.Server, mode)
		for range 3 { // after the first time, its pool has a connection
			_, err := openURL(context.Background(), s.via(bouncer.Addr))
			for end := time.Now().Add(6 * soon); errors.Is(err, backend.ErrUnavailable) && time.Now().Before(end); {
				_, err = openURL(context.Background(), s.via(bouncer.Addr)) // the machine is busy
			}
			if !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), "postgres+table://") {
				t.Errorf("%s pooling: %v", mode, err)
			}
		}
	}
}

// P10: a standby is refused. After a failover, the old lease is lost, and the new primary grants the key.
func TestFailover(t *testing.T) {
	t.Parallel()
	for mode, params := range variants {
		primary, standby := servers.PostgresPair(t)
		if _, err := openURL(context.Background(), standby.PostgresURL()+params); !errors.Is(err, backend.ErrUnsupported) ||
			!strings.Contains(err.Error(), "standby") {
			t.Errorf("%s mode on a standby: %v", mode, err)
		}
		url := "postgres://postgres@" + primary.Addr + "," + standby.Addr +
			"/postgres?sslmode=disable&target_session_attrs=primary"
		b := opened(t, url+params)
		l := acquire(t, b, req("k", time.Minute))
		primary.Kill()
		lost(t, l, soon)
		if !query[bool](t, dialed(t, standby.PostgresURL()), "SELECT pg_promote()") {
			t.Fatal("not promoted")
		}
		release(t, acquire(t, b, waiting("k", time.Minute)))
		if err := l.Renew(context.Background(), time.Minute); !errors.Is(err, backend.ErrLost) {
			t.Errorf("%s mode: renewal of a lease from before the failover: %v", mode, err)
		}
	}
}

// Once a store is open, a standby in place of the primary is an outage, which waiters survive. Otherwise the restart of
// a primary would end them with ErrUnsupported, if the URL also names a standby.
func TestStandbyDuringOutage(t *testing.T) {
	t.Parallel()
	primary, standby := servers.PostgresPair(t)
	b := opened(t, "postgres://postgres@"+primary.Addr+","+standby.Addr+"/postgres?sslmode=disable")
	l := acquire(t, b, req("k", time.Minute))
	done := queueUp(t, b, waiting("k", time.Minute), 1)
	primary.Kill()
	lost(t, l, soon)
	if _, err := b.Acquire(context.Background(), req("other", time.Minute)); !errors.Is(err, backend.ErrUnavailable) ||
		errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("an attempt while the primary is down: %v, want ErrUnavailable", err)
	}
	primary.Start()
	release(t, granted(t, done, 4*soon).Lease)
}
