package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
)

var variants = map[string]string{"default": "", "durable": "&lock_durable=true"}

// freedAfter waits until the server grants the key's lock, and returns the time from the holder's last request to this
// grant.
func freedAfter(t *testing.T, c *pgx.Conn, key string) time.Duration {
	t.Helper()
	h := hashOf(key)
	classid, objid := h.halves()
	since := query[time.Time](t, c, `SELECT a.state_change FROM pg_stat_activity a JOIN pg_locks l USING (pid)
		WHERE `+advisory+` AND l.granted AND l.classid = $1::oid AND l.objid = $2::oid`, classid, objid)
	freed := query[time.Time](t, c, `WITH l AS MATERIALIZED (SELECT pg_advisory_lock($1)) SELECT clock_timestamp() FROM l`,
		int64(h))
	_ = query[bool](t, c, "SELECT pg_advisory_unlock($1)", int64(h))
	return freed.Sub(since)
}

// P3: the key of a frozen holder is free when its TTL has run out, by the server's clock. A server that gets no
// processor time may be late once, but not twice.
func TestFrozenHolder(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const ttl = 3 * time.Second
	for mode, params := range variants {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := dialed(t, s.PostgresURL())
			var took time.Duration
			for range 2 {
				p := startChild(t, s.PostgresURL()+params, mode, ttl, exclusiveChild)
				p.says("held")
				p.freeze()
				took = freedAfter(t, c, mode)
				t.Logf("freed %v after the last request, of a TTL of %v", took, ttl)
				if took <= ttl+maxLate {
					break
				}
			}
			if took < ttl || took > ttl+maxLate {
				t.Errorf("freed %v after the last request, of a TTL of %v", took, ttl)
			}
		})
	}
}

// The key of a killed holder is free at once.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for mode, params := range variants {
		p := startChild(t, s.PostgresURL()+params, mode, time.Minute, exclusiveChild)
		p.says("held")
		p.kill()
		b := opened(t, s.PostgresURL()+params)
		release(t, granted(t, startAcquire(context.Background(), b, waiting(mode, time.Minute)), soon).Lease)
	}
}

// P4: a waiter that was killed, cut off or frozen delays the next waiter by at most its TTL, even if it is a writer
// between readers. A server that gets no processor time may be late once, but not twice.
func TestDeadWaiter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL())
	const ttl, most = time.Second, time.Second + maxLate + time.Second
	for _, c := range []struct {
		how    string
		shared bool
	}{{"killed", false}, {"cut-off", false}, {"frozen", false}, {"cut-off", true}, {"frozen", true}} {
		t.Run(fmt.Sprintf("%s/shared=%v", c.how, c.shared), func(t *testing.T) {
			var took time.Duration
			for range 2 {
				took = behindDead(t, s, b, c.how, c.shared, ttl)
				t.Logf("the next waiter had to wait %v", took)
				if took <= most {
					break
				}
			}
			if took > most {
				t.Errorf("the next waiter had to wait %v, want at most %v", took, most)
			}
		})
	}
}

// behindDead queues a waiter behind another one, which is then killed, cut off or frozen. It returns the time from the
// holder's release to the grant of the second waiter.
func behindDead(t *testing.T, s database, b *Backend, how string, shared bool, ttl time.Duration) time.Duration {
	t.Helper()
	r := req(how, time.Minute)
	r.Shared = shared
	held := acquire(t, b, r)
	url := s.PostgresURL()
	p := newProxy(t, s.Addr)
	if how == "cut-off" {
		url = strings.Replace(url, s.Addr, p.Addr, 1)
	}
	dead := startChild(t, url, how, ttl, exclusiveChild)
	queued(t, b, how, 1)
	r = waiting(how, time.Minute)
	r.Shared = shared
	next := queueUp(t, b, r, 2)
	switch how {
	case "killed":
		dead.kill()
	case "cut-off":
		p.set(func(p *proxy) { p.silent = true })
	case "frozen":
		dead.freeze()
	}
	begun := time.Now()
	release(t, held)
	o := granted(t, next, ttl+maxLate+soon)
	release(t, o.Lease)
	return o.At.Sub(begun)
}

// P5: a holder is notified of the end of its session within 100 ms, however long the session has been idle. A busy
// machine may exceed the limit now and then, but not three times in a row.
func TestTerminatedHolder(t *testing.T) {
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	const prompt, tries = 100 * time.Millisecond, 3
	for mode, params := range variants {
		b := opened(t, s.PostgresURL()+params)
		var worst time.Duration
		for i := range 12 {
			took := terminated(t, b, c, mode, i)
			for n := 1; took > prompt && n < tries; n++ {
				took = min(took, terminated(t, b, c, mode, i))
			}
			worst = max(worst, took)
		}
		t.Logf("%s: lost within %v", mode, worst)
		if worst > prompt {
			t.Errorf("%s: Lost closed after %v", mode, worst)
		}
	}
}

// terminated terminates the session of the i-th lease on key, and returns the time until its Lost channel was closed.
func terminated(t *testing.T, b *Backend, c *pgx.Conn, key string, i int) time.Duration {
	t.Helper()
	l := acquire(t, b, req(key, time.Minute))
	if i%3 == 2 {
		if err := l.Renew(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Duration(i) * 10 * time.Millisecond) // sleeps: the age of the session
	classid, objid := hashOf(key).halves()
	if _, err := c.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE `+advisory+` AND classid = $1::oid AND objid = $2::oid`, classid, objid); err != nil {
		t.Fatal(err)
	}
	begun := time.Now() // the session ends now: the time until the server executes the statement does not count
	lost(t, l, soon)
	took := time.Since(begun)
	if err := l.Release(context.Background()); !errors.Is(err, backend.ErrLost) {
		t.Errorf("release of a lease whose session has ended: %v", err)
	}
	until(t, soon, "the key is free", func() bool { return locks(t, c) == 0 })
	return took
}

// If the server has ended the session, Release returns ErrLost, even before the client has noticed the end.
func TestReleaseMeetsEnd(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	for mode, params := range variants {
		b := opened(t, s.PostgresURL()+params)
		for range 5 {
			l := acquire(t, b, req(mode, time.Minute))
			_ = query[bool](t, c, "SELECT bool_and(pg_terminate_backend(pid, 5000)) FROM pg_locks WHERE "+advisory)
			if err := l.Release(context.Background()); !errors.Is(err, backend.ErrLost) {
				t.Errorf("%s: %v, want ErrLost", mode, err)
			}
		}
	}
}

// A connection without a lease is not ended by the timer of its last lease, and is reused.
func TestIdleConnectionsLast(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL())
	c := dialed(t, s.PostgresURL())
	pids := func() string {
		return query[string](t, c, "SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE "+
			"application_name = 'anylock' AND datname = current_database()")
	}
	const ttl = 2 * time.Second
	release(t, acquire(t, b, req("k", ttl)))
	before := pids()
	time.Sleep(ttl * 3 / 2) // sleeps: the period in which no connection may end
	if after := pids(); after != before {
		t.Errorf("sessions %s, after a while %s", before, after)
	}
	release(t, acquire(t, b, req("k", ttl)))
	if after := pids(); after != before {
		t.Errorf("sessions %s, after another lease %s", before, after)
	}
}

// After Close, the keys of live leases stay held until the TTL has run out, because their holders may still be working.
func TestCloseKeepsKeys(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for mode, params := range variants {
		b, other := opened(t, s.PostgresURL()+params), opened(t, s.PostgresURL()+params)
		const ttl = 2 * time.Second
		begun := time.Now()
		acquire(t, b, req(mode, ttl))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		l := acquire(t, other, waiting(mode, time.Minute))
		if took := time.Since(begun); took < ttl {
			t.Errorf("%s: free %v after a grant and Close, of a TTL of %v", mode, took, ttl)
		}
		release(t, l)
	}
}
