package pgtable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

func dialed(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func exec(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

var together = servers.Shared{Start: func(t testing.TB) *servers.Server {
	return servers.Postgres(t,
		"max_connections=300")
}}

// If a transaction has locked the row of one lease, all other leases are still renewed. The key of that row stays busy.
func TestLockedRow(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	url := tableURL(s) + "&lock_table=locked_row&timeout=2s"
	a, b := opened(t, url), opened(t, url)
	const n, ttl = 20, 6 * time.Second // a renewal has a third of it, which outlasts a stall of the machine
	list := storetest.HoldMany(t, a, 0, n, ttl)
	c := dialed(t, s.PostgresURL())
	exec(t, c, `BEGIN`, `SELECT 1 FROM locked_row WHERE name='many7' FOR SHARE`)
	for i, err := range a.RenewBatch(t.Context(), list) {
		if (err != nil) != (i == 7) || errors.Is(err, backend.ErrLost) {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	<-list[7].Lease.Lost()
	key := "many7"
	until := time.Now().Add(soon)
	for { // the row's lease ends after the holder's deadline
		_, err := b.Acquire(t.Context(), req(key, ttl))
		if !errors.Is(err, backend.ErrHeld) || time.Now().After(until) {
			t.Fatalf("a key whose row is locked: %v, want ErrHeld", err)
		}
		if h, err := b.Inspect(t.Context(), key); err == nil && !h.Held() {
			break
		}
	}
	if _, err := b.Acquire(t.Context(), req(key, ttl)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("an expired key whose row is locked: %v, want ErrHeld", err)
	}
	exec(t, c, `COMMIT`)
	release(t, acquire(t, b, waiting(key, ttl)))
	storetest.ReleaseMany(list)
}

// A lease whose row is locked does not delay the others of its batch, even if no other lease has its TTL.
func TestLockedRowOfAnotherTTL(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	const ttl, timeout = time.Minute, 20 * time.Second
	b := opened(t, tableURL(s)+"&lock_table=other_ttl&timeout="+timeout.String())
	list := storetest.HoldMany(t, b, 0, 3, ttl)
	list[1].TTL = 2 * ttl
	c := dialed(t, s.PostgresURL())
	exec(t, c, `BEGIN`, `SELECT 1 FROM other_ttl WHERE name='many1' FOR SHARE`)
	begun := time.Now()
	for i, err := range b.RenewBatch(t.Context(), list) {
		if (err != nil) != (i == 1) || errors.Is(err, backend.ErrLost) {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	if took := time.Since(begun); took > timeout/2 {
		t.Errorf("the batch waited for %v", took)
	}
	exec(t, c, `COMMIT`)
	for i, err := range b.RenewBatch(t.Context(), list) {
		if left := time.Until(list[i].Lease.Deadline()); err != nil || left > list[i].TTL || left < list[i].TTL-soon {
			t.Errorf("lease %d of %v: %v, %v", i, list[i].TTL, left, err)
		}
	}
	storetest.ReleaseMany(list)
}

// If the server ends statements that wait before the store does, a key whose row is locked is still reported as held.
func TestLockedRowAndServerTimeouts(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	c := dialed(t, s.PostgresURL())
	for role, setting := range map[string]string{
		"impatient": "lock_timeout = '1ms'",
		"hasty":     "statement_timeout = '500ms'",
	} {
		exec(t, c, `DO $$ BEGIN CREATE ROLE `+role+` LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN END $$`,
			`ALTER ROLE `+role+` SET `+setting)
		url := tableURL(s) + "&timeout=2s&lock_table=" + role
		l := acquire(t, opened(t, url), req("k", 3*time.Second)) // never released
		b := opened(t, strings.Replace(url, "postgres@", role+"@", 1))
		exec(t, c, `BEGIN`, `SELECT 1 FROM `+role+` WHERE name='k' FOR SHARE`)
		<-l.Lost()
		storetest.Until(t, soon, "the key has expired", func() bool {
			h, err := b.Inspect(t.Context(), "k")
			return err == nil && !h.Held()
		})
		if _, err := b.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("%s: an expired key whose row is locked: %v, want ErrHeld", setting, err)
		}
		exec(t, c, `COMMIT`)
		release(t, acquire(t, b, waiting("k", time.Minute)))
	}
}

// If a request gets no reply, an expired key whose row is not locked is not reported as held by its last owner.
func TestNoReplyForExpiredKey(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	p := storetest.NewProxy(t, s.Addr)
	url := tableURL(s) + "&lock_table=no_reply&timeout=8s"
	a, b := opened(t, url), opened(t, strings.Replace(url, s.Addr, p.Addr, 1))
	_ = acquire(t, a, req("k", 3*time.Second)) // never released
	storetest.Until(t, 2*soon, "the key has expired", func() bool {
		h, err := b.Inspect(t.Context(), "k")
		return err == nil && !h.Held()
	})
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	got := storetest.Start(t.Context(), b, req("k", time.Minute))
	storetest.Until(t, soon, "the request is lost", p.Taken)
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	if o := <-got; !errors.Is(o.Err, backend.ErrUnavailable) || errors.Is(o.Err, backend.ErrHeld) {
		t.Errorf("a lost request for a free key: %v, want ErrUnavailable", o.Err)
	}
}

// A row that a transaction has locked is not renewed. Even if the reply that shows so arrives late, the holder does not
// take the row for renewed: its deadline stays before the end of the row's lease.
func TestLockedRowAndLateReply(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	const ttl, age, late = 20 * time.Second, time.Second, 2 * time.Second
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, strings.Replace(tableURL(s), s.Addr, p.Addr, 1)+"&lock_table=late_reply&timeout=10s")
	list := storetest.HoldMany(t, b, 0, 2, ttl)
	locked := list[1].Lease
	c := dialed(t, s.PostgresURL())
	exec(t, c, `BEGIN`, `SELECT 1 FROM late_reply WHERE name='many1' FOR SHARE`)
	time.Sleep(age) // sleeps: the age of the leases
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func(reply []byte) bool {
			if bytes.Contains(reply, []byte("many1")) { // the rows
				time.Sleep(late) // sleeps: how late the reply is
			}
			return true
		}
	})
	errs := b.RenewBatch(t.Context(), list)
	if errs[0] != nil || errors.Is(errs[1], backend.ErrLost) {
		t.Fatal(errs)
	}
	p.Set(func(p *storetest.Proxy) { p.Replies = nil })
	h, err := b.Inspect(t.Context(), "many1")
	if holder := time.Until(locked.Deadline()); err != nil || holder > h.TTL {
		t.Errorf("a row that was not renewed (%v): the lease lasts for %v for its holder, and for %v in the database (%v)",
			errs[1], holder, h.TTL, err)
	}
	exec(t, c, `COMMIT`)
	storetest.ReleaseMany(list)
}

func TestPermissionsOfThePage(t *testing.T) { // not parallel: it changes the working directory
	s := together.Get(t)
	c := dialed(t, s.PostgresURL())
	ddl, err := sqltable.DDL(sqltable.Postgres, "anylock")
	if err != nil {
		t.Fatal(err)
	}
	page := permissions(t)
	exec(t, c, `CREATE DATABASE permissions`, `CREATE ROLE app LOGIN`)
	inside := dialed(t, strings.Replace(s.PostgresURL(), "/postgres?", "/permissions?", 1))
	exec(t, inside, `REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO app`)
	url := "postgres+table://app@" + s.Addr + "/permissions?sslmode=disable"
	if _, err := openURL(t.Context(), url); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("a table that may not be created: %v, want ErrUnsupported", err)
	}
	exec(t, inside, ddl)
	if _, err := openURL(t.Context(), url); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("a table without rights: %v, want ErrUnsupported", err)
	}
	exec(t, inside, page)
	storetest.UseAll(t, opened(t, url+"&lock_create=false"), "k")
}

func permissions(t *testing.T) string {
	t.Helper()
	t.Chdir("..") // Permissions finds the pages from a folder below the root
	return strings.Join(storetest.Permissions(t, "sqltable"), ";\n")
}

func TestMissingTableAndIndex(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	if _, err := openURL(t.Context(), tableURL(s)+"&lock_table=nowhere&lock_create=false"); !errors.Is(err,
		backend.ErrUnsupported) ||
		!strings.Contains(err.Error(), "anylock table --dialect postgres") {
		t.Errorf("no table: %v", err)
	}
	exec(t, dialed(t, s.PostgresURL()), `CREATE TABLE keyless (name bytea, owner bytea, token bigint, expires bigint)`)
	if _, err := openURL(t.Context(), tableURL(s)+"&lock_table=keyless"); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("no unique index: %v, want ErrUnsupported", err)
	}
	if _, err := openURL(t.Context(), tableURL(s)+"&lock_table=a%3Bb"); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("bad name: %v, want ErrInvalid", err)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	c := dialed(t, s.PostgresURL())
	exec(t, c, `CREATE ROLE careless LOGIN SUPERUSER`, `ALTER ROLE careless SET synchronous_commit = off`)
	b := opened(t, strings.Replace(tableURL(s), "postgres@", "careless@", 1)+"&lock_table=doctor&lock_max_conns=1")
	exec(t, c, `ALTER TABLE doctor SET UNLOGGED`)
	storetest.Finds(t, b, "asynchronous-commit", "unlogged-table", "one-connection", "fsync")
}

// Clients that open a missing table at the same time all succeed: one of them creates the table.
func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	errs := make(chan error)
	const clients = 8
	for range clients {
		go func() {
			b, err := openURL(context.Background(), tableURL(s)+patient+"&lock_table=at_once")
			if err == nil {
				err = b.Close()
			}
			errs <- err
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// If serializable is the default isolation level, statements that conflict fail. They are repeated, so callers see no
// error.
func TestSerializable(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	exec(t, dialed(t, s.PostgresURL()), `CREATE ROLE strict LOGIN SUPERUSER`,
		`ALTER ROLE strict SET default_transaction_isolation = serializable`)
	bouncer := servers.PgBouncer(t, s, "transaction")
	for i, addr := range []string{s.Addr, bouncer.Addr} {
		url := fmt.Sprintf("postgres+table://strict@%s/postgres?sslmode=disable&lock_table=serializable%d%s", addr, i,
			patient)
		const clients, cycles = 4, 8
		granted := make(chan uint64, clients*cycles) // in order, because each token is sent by the holder
		var workers sync.WaitGroup
		for range clients {
			b := opened(t, url)
			workers.Go(func() {
				for range cycles {
					l, err := b.Acquire(context.Background(), waiting("k", time.Minute))
					if err != nil {
						t.Error(err)
						return
					}
					granted <- l.Token()
					if err := l.Release(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		workers.Wait()
		close(granted)
		var tokens []uint64
		for token := range granted {
			tokens = append(tokens, token)
		}
		if !slices.IsSorted(tokens) {
			t.Errorf("tokens out of order: %d", tokens)
		}
	}
}

// loseReply cuts p's connections instead of passing on the first reply after which done is true. Unlike
// Proxy.LoseReply, it does not mistake the reply to a purge for the right one.
func loseReply(p *storetest.Proxy, done func() bool) (lost <-chan struct{}) {
	var once sync.Once
	cut := make(chan struct{})
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func([]byte) bool {
			first := false
			if done() {
				once.Do(func() {
					first = true
					p.Cut()
					close(cut)
				})
			}
			return !first
		}
	})
	return cut
}

// If the first try of a renewal gets no reply, and the second one does, the first may still reach the database after a
// longer renewal. The lease then ends for its holder before it ends in the database.
func TestRepeatedRenewalArrivesLate(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	const short, long = 5 * time.Second, time.Minute
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, strings.Replace(tableURL(s), s.Addr, p.Addr, 1)+"&lock_table=late_renewal")
	other := opened(t, tableURL(s)+"&lock_table=late_renewal")
	for how, renew := range map[string]func(r backend.Request, l backend.Lease) (backend.Lease, error){
		"Renew": func(r backend.Request, l backend.Lease) (backend.Lease, error) { return l, l.Renew(t.Context(), r.TTL) },
		"RenewBatch": func(r backend.Request, l backend.Lease) (backend.Lease, error) {
			return l, b.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: r.TTL}})[0]
		},
		"Resume": func(r backend.Request, _ backend.Lease) (backend.Lease, error) { return b.Resume(t.Context(), r) },
	} {
		r := storetest.Try(how, long)
		l, err := renew(r, storetest.Acquire(t, b, r)) // prepares the statement, so that the next reply is the renewal's
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		r.TTL = short
		lost := loseReply(p, func() bool {
			h, err := other.Inspect(t.Context(), how)
			return err == nil && h.TTL <= short
		})
		if l, err = renew(r, l); err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		<-lost
		p.Set(func(p *storetest.Proxy) { p.Replies = nil })
		if err := l.Renew(t.Context(), long); err != nil {
			t.Fatalf("%s, then a longer renewal: %v", how, err)
		}
		if _, err := other.Resume(t.Context(), r); err != nil { // the same statement as the first try's
			t.Fatal(err)
		}
		h, err := other.Inspect(t.Context(), how)
		if holder := time.Until(l.Deadline()); err != nil || h.TTL > short || holder > h.TTL {
			t.Errorf("%s: the lease lasts for %v for its holder, and for %v in the database (%v)", how, holder, h.TTL, err)
		}
		storetest.Release(t, l)
	}
}

// If the reply to a Break is lost, the repeated statement finds no lease, and Break still succeeds.
func TestLostReplyOfBreak(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	p := storetest.NewProxy(t, s.Addr)
	url := tableURL(s) + "&lock_table=lost_break"
	b, other := opened(t, strings.Replace(url, s.Addr, p.Addr, 1)), opened(t, url)
	r := req("k", time.Minute)
	if err := b.Break(t.Context(), "k", r.Owner); !errors.Is(err, backend.ErrLost) { // prepares the statement
		t.Fatal(err)
	}
	l := acquire(t, b, r)
	if err := b.Break(t.Context(), "other", r.Owner); !errors.Is(err, backend.ErrLost) { // on the connection of the acquire
		t.Fatal(err)
	}
	lost := loseReply(p, func() bool {
		h, err := other.Inspect(t.Context(), "k")
		return err == nil && !h.Held()
	})
	if err := b.Break(t.Context(), "k", r.Owner); err != nil {
		t.Errorf("break whose reply was lost: %v", err)
	}
	<-lost
	p.Set(func(p *storetest.Proxy) { p.Replies = nil })
	if err := l.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
		t.Errorf("release after the break: %v", err)
	}
}

// A batch does not renew the lease of a key that has a new owner.
func TestBatchSparesNewOwner(t *testing.T) {
	t.Parallel()
	url := tableURL(together.Get(t)) + "&lock_table=new_owner"
	a, b := opened(t, url), opened(t, url)
	list := storetest.HoldMany(t, a, 0, 3, time.Minute)
	key := "many1"
	h, err := b.Inspect(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Break(t.Context(), key, h.Owner); err != nil {
		t.Fatal(err)
	}
	next := acquire(t, b, req(key, time.Hour))
	for i, err := range a.RenewBatch(t.Context(), list) {
		if lost := errors.Is(err, backend.ErrLost); lost != (i == 1) || !lost && err != nil {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	if h, err := b.Inspect(t.Context(), key); err != nil || h.Token != next.Token() || h.TTL < time.Hour-soon {
		t.Errorf("the key of the new owner: %+v, %v", h, err)
	}
	release(t, next)
	release(t, list[0].Lease)
	release(t, list[2].Lease)
}

// If the reply to a grant is lost and the repeated statement gets one, the first may be executed after the release. The
// store then removes the owner once more.
func TestRepeatedGrantArrivesLate(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	p := storetest.NewProxy(t, s.Addr)
	url := tableURL(s) + "&lock_table=late_grant"
	b, other := opened(t, strings.Replace(url, s.Addr, p.Addr, 1)), opened(t, url)
	release(t, acquire(t, b, req("k", time.Minute))) // prepares the statement
	r := req("k", time.Minute)
	lost := loseReply(p, func() bool {
		h, err := other.Inspect(t.Context(), "k")
		return err == nil && h.Owner == r.Owner
	})
	l := acquire(t, b, r)
	<-lost
	p.Set(func(p *storetest.Proxy) { p.Replies = nil })
	release(t, l)
	if _, err := other.Acquire(t.Context(), r); err != nil { // the same statement as the first try's
		t.Fatal(err)
	}
	storetest.Until(t, soon, "the key is free", func() bool {
		h, err := other.Inspect(t.Context(), "k")
		return err == nil && !h.Held()
	})
}

// A key that is acquired while old rows are being deleted keeps its row.
func TestPurgeSparesNewLease(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	p := storetest.NewProxy(t, s.Addr)
	url := tableURL(s) + "&lock_table=purge_race"
	other := opened(t, url)
	c := dialed(t, s.PostgresURL())
	exec(t, c, `DELETE FROM purge_race`)               // with -count, the table exists
	for _, name := range []string{"first", "second"} { // both have been free for two days
		exec(t, c, `INSERT INTO purge_race SELECT '`+name+`', '', 1, -(extract(epoch FROM now())-2*86400)*1000000`)
	}
	r := req("first", time.Minute)
	var once sync.Once
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func(reply []byte) bool {
			if bytes.Contains(reply, []byte("first")) { // the list of old rows
				once.Do(func() { _, _ = other.Acquire(t.Context(), r) })
			}
			return true
		}
	})
	b := opened(t, strings.Replace(url, s.Addr, p.Addr, 1))
	release(t, acquire(t, b, req("k", time.Minute)))
	storetest.Until(t, soon, "the other row is deleted", func() bool {
		rows, err := c.Query(t.Context(), `SELECT 1 FROM purge_race WHERE name='second'`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		return !rows.Next()
	})
	if h, err := other.Inspect(t.Context(), "first"); err != nil || h.Owner != r.Owner {
		t.Errorf("a key that was acquired meanwhile: %+v, %v", h, err)
	}
}

// If the application uses many keys only once, all of their rows are deleted, and not only some in each hour.
func TestPurgeDeletesAllOldRows(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	b := opened(t, tableURL(s)+"&lock_table=purge_all")
	c := dialed(t, s.PostgresURL())
	exec(t, c, `DELETE FROM purge_all`, // with -count, the table exists
		`INSERT INTO purge_all SELECT convert_to('old ' || n, 'UTF8'), '', 1, -(extract(epoch FROM now())-2*86400)*1000000
			FROM generate_series(1, 2500) AS n`)
	storetest.Until(t, 30*time.Second, "all old rows are deleted", func() (deleted bool) {
		release(t, acquire(t, b, req("k", time.Minute)))
		err := c.QueryRow(t.Context(), `SELECT count(*)=1 FROM purge_all`).Scan(&deleted)
		return err == nil && deleted
	})
}

// If a trigger or a policy keeps all old rows, a purge is not repeated at each Acquire.
func TestPurgeEndsIfRowsStay(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	b := opened(t, tableURL(s)+"&lock_table=purge_none")
	c := dialed(t, s.PostgresURL())
	const rows = 1000
	exec(t, c, `DROP TRIGGER IF EXISTS keeps ON purge_none`, // with -count, all this exists
		`DROP SEQUENCE IF EXISTS purge_tries`, `CREATE SEQUENCE purge_tries`, `DELETE FROM purge_none`,
		`CREATE OR REPLACE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql
			AS 'BEGIN PERFORM nextval(''purge_tries''); RETURN NULL; END'`,
		`CREATE TRIGGER keeps BEFORE DELETE ON purge_none FOR EACH ROW EXECUTE FUNCTION keeps()`,
		fmt.Sprintf(`INSERT INTO purge_none SELECT convert_to('old ' || n, 'UTF8'), '', 1,
			-(extract(epoch FROM now())-2*86400)*1000000 FROM generate_series(1, %d) AS n`, rows))
	tries := func() (n int) {
		if err := c.QueryRow(t.Context(), `SELECT last_value FROM purge_tries`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	acquires := func() { release(t, acquire(t, b, req("k", time.Minute))) }
	storetest.Until(t, 30*time.Second, "a purge tries to delete all old rows", func() bool {
		acquires()
		return tries() >= rows
	})
	for range 50 {
		acquires()
	}
	if n := tries(); n != rows {
		t.Errorf("%d tries to delete %d rows", n, rows)
	}
}
