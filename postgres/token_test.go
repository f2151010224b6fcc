package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/internal/servers"
)

// nextID returns the transaction id that the server assigns next.
func nextID(t testing.TB, c *pgx.Conn) int64 {
	t.Helper()
	return query[int64](t, c, "SELECT age('3'::xid)::bigint + 3")
}

// While no other client gets a transaction id, a client shares one id among many grants, of all keys.
func TestOneIDForManyGrants(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "autovacuum=off")
	for _, params := range []string{"", "&lock_durable=true"} {
		b, c := opened(t, s.PostgresURL()+params), dialed(t, s.PostgresURL())
		const cycles = 3 << grantBits / 2
		before := nextID(t, c)
		var last uint64
		for i := range cycles {
			r := req([]string{"k", "other"}[i%2], time.Minute)
			r.Wait = i%3 == 0
			l := acquire(t, b, r)
			if l.Token() <= last {
				t.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			release(t, l)
		}
		if n := nextID(t, c) - before; n < 2 || n > 4 {
			t.Errorf("%q: %d transaction ids for %d grants, want 2", params, n, cycles)
		}
	}
}

// If another client gets a transaction id while a session is queued, the session needs a new id: a comparison of ids
// from before the queue would be out of date.
func TestTokensRiseAcrossQueue(t *testing.T) {
	t.Parallel()
	s := servers.Postgres(t, "autovacuum=off")
	first, second, third := opened(t, s.PostgresURL()), opened(t, s.PostgresURL()), opened(t, s.PostgresURL())
	l := acquire(t, first, req("k", time.Minute))
	release(t, acquire(t, second, req("second's", time.Minute)))
	release(t, acquire(t, third, req("third's", time.Minute))) // now the third client has the newest id

	two := startAcquire(context.Background(), second, waiting("k", time.Minute))
	queued(t, first, "k", 1)
	three := startAcquire(context.Background(), third, waiting("k", time.Minute))
	queued(t, first, "k", 2)
	last := l.Token()
	release(t, l)
	for _, next := range []<-chan outcome{two, three} {
		o := <-next
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if o.Lease.Token() <= last {
			t.Errorf("token %d after %d", o.Lease.Token(), last)
		}
		last = o.Lease.Token()
		release(t, o.Lease)
	}
}

func TestMint(t *testing.T) {
	t.Parallel()
	const key, other = 1, 2
	now := time.Now()
	var m tokenSource
	// attempt makes one attempt, whose reply arrives at once.
	attempt := func(h hash, answer string, asked time.Time) (uint64, error) {
		defer m.end(h)
		return m.token(answer, m.begin(h, asked, now), asked)
	}
	own := func(h hash, asked, since time.Time) uint32 {
		defer m.end(h)
		return m.begin(h, asked, since).lowBits()
	}
	if id := own(key, now, now); id != 0 {
		t.Fatalf("own id %d without any", id)
	}
	if _, err := attempt(key, replyOwnID, now); err == nil {
		t.Error("a token of no id")
	}
	first, err := attempt(key, "4294967301", now) // 2^32 + 5
	if err != nil || first != 4294967301<<grantBits {
		t.Fatal(first, err)
	}
	if id := own(key, now, now); id != 5 {
		t.Errorf("own id %d, want the lower 32 bits", id)
	}
	if id := own(key, now.Add(shareLimit+1), now); id != 0 {
		t.Errorf("own id %d after %v: it may have come round", id, shareLimit)
	}
	if id := own(key, now, now.Add(1)); id != 0 {
		t.Errorf("own id %d in a session that came after it: the server may have crashed in between", id)
	}
	under := m.begin(key, now, now)
	if id := own(key, now, now); id != 0 {
		t.Errorf("own id %d in a second attempt on the key: answers may overtake each other", id)
	}
	if id := own(other, now, now); id != 5 {
		t.Errorf("own id %d in an attempt on another key, want 5", id)
	}
	m.end(key)
	last, err := m.token(replyOwnID, under, now)
	if err != nil || last <= first {
		t.Fatal(last, first, err)
	}
	n := 2
	for ; own(key, now, now) != 0; n++ { // own counts as a use, too
		next, err := attempt(key, replyOwnID, now)
		if err != nil && m.newest.uses+1 < 1<<grantBits || err == nil && next <= last {
			t.Fatal(next, last, err)
		}
		last = max(last, next)
	}
	if n < 1<<grantBits/2-3 || last >= 4294967302<<grantBits {
		t.Errorf("%d tokens of one id, the last %d", n, last)
	}
	for _, bad := range []string{"", "0", "-1", "x", "35184372088832"} { // 2^45 does not fit
		if token, err := attempt(key, bad, now); err == nil {
			t.Errorf("%q makes token %d", bad, token)
		}
	}
	if token, err := attempt(key, "35184372088831", now); err != nil || token>>(64-9) != 0 {
		t.Errorf("token %x, %v: package lock has no bits left", token, err)
	}
}
