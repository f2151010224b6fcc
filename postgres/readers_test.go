package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// asReader returns r as a shared request.
func asReader(r backend.Request) backend.Request {
	r.Shared = true
	return r
}

// busy checks that a request that does not wait gets ErrHeld.
func busy(t testing.TB, b *Backend, r backend.Request) {
	t.Helper()
	if l, err := b.Acquire(context.Background(), r); !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("shared=%v: got %v, %v, want ErrHeld", r.Shared, l, err)
	}
}

// modes counts the database's shared locks, its exclusive locks, and the locks that are waited for.
func modes(t testing.TB, c *pgx.Conn) (readers, writers, waiting int) {
	t.Helper()
	if err := c.QueryRow(context.Background(), `SELECT count(*) FILTER (WHERE granted AND mode = 'ShareLock'),
		count(*) FILTER (WHERE granted AND mode = 'ExclusiveLock'), count(*) FILTER (WHERE NOT granted)
		FROM pg_locks WHERE `+advisory).Scan(&readers, &writers, &waiting); err != nil {
		t.Fatal(err)
	}
	return readers, writers, waiting
}

// sessionOf returns the process id of the session that carries l.
func sessionOf(l backend.Lease) string {
	return fmt.Sprint(l.(*kit.Life).Data.(*checkout).s.conn.PID())
}

// Readers of one or two clients hold one key, each on its own session, and each release ends one lease only. A session
// that has carried a shared lease can carry an exclusive one next, and the other way round. No lock is left over.
func TestReadersExcludeWriters(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	for mode, params := range variants {
		a, b := opened(t, s.PostgresURL()+params), opened(t, s.PostgresURL()+params)
		for range 3 {
			var readers []backend.Lease
			for i := range 3 {
				on, r := []*Backend{a, b}[i%2], asReader(req(mode, time.Minute))
				r.Wait = i == 2
				readers = append(readers, acquire(t, on, r))
			}
			if one, other := sessionOf(readers[0]), sessionOf(readers[2]); one == other {
				t.Fatalf("two readers share session %s", one)
			}
			for i, l := range readers {
				busy(t, a, req(mode, time.Minute))
				if n, _, _ := modes(t, c); n != len(readers)-i {
					t.Fatalf("%d shared locks for %d readers", n, len(readers)-i)
				}
				release(t, l)
			}
			writer := acquire(t, a, req(mode, time.Minute))
			busy(t, a, asReader(req(mode, time.Minute)))
			busy(t, b, asReader(req(mode, time.Minute)))
			release(t, writer)
		}
		if n := locks(t, c); n != 0 {
			t.Errorf("%s: %d locks are left", mode, n)
		}
	}
}

// No reader overtakes a waiting writer. The readers behind the writer are granted the key together, after the writer's
// lease, or as soon as the writer is cancelled.
func TestReadersBehindWriter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, other := opened(t, s.PostgresURL()), opened(t, s.PostgresURL())
	c := dialed(t, s.PostgresURL())
	for _, cancelled := range []bool{false, true} {
		first := acquire(t, b, asReader(req("k", time.Minute)))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		writer := startAcquire(ctx, b, waiting("k", time.Minute))
		queued(t, b, "k", 1)
		busy(t, b, asReader(req("k", time.Minute)))
		busy(t, other, asReader(req("k", time.Minute)))
		var readers []<-chan outcome
		for i := range 4 {
			readers = append(readers, queueUp(t, []*Backend{b, other}[i%2], asReader(waiting("k", time.Minute)), 2+i))
		}
		if n, _, _ := modes(t, c); n != 1 {
			t.Fatalf("%d readers beside a waiting writer, want the first one", n)
		}
		if cancelled {
			cancel()
			if o := <-writer; !errors.Is(o.Err, context.Canceled) || !errors.Is(o.Err, backend.ErrHeld) {
				t.Fatalf("cancelled writer: %v", o.Err)
			}
		} else {
			release(t, first)
			release(t, granted(t, writer, soon).Lease)
		}
		var leases []backend.Lease
		for _, r := range readers {
			leases = append(leases, granted(t, r, soon).Lease)
		}
		if cancelled {
			leases = append(leases, first)
		}
		if n, _, _ := modes(t, c); n != len(leases) {
			t.Errorf("%d readers hold the key, want %d", n, len(leases))
		}
		for _, l := range leases {
			release(t, l)
		}
	}
}

// If a waiting writer is killed, the readers behind it are granted the key. If a reader is killed, the writer behind it
// is granted the key.
func TestKilledReaderAndWriter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL())
	first := acquire(t, b, asReader(req("k", time.Minute)))
	writer := startChild(t, s.PostgresURL(), "k", time.Minute, exclusiveChild)
	queued(t, b, "k", 1)
	second := queueUp(t, b, asReader(waiting("k", time.Minute)), 2)
	writer.kill()
	release(t, granted(t, second, soon).Lease)
	reader := startChild(t, s.PostgresURL(), "k", time.Minute, sharedChild)
	reader.says("held")
	release(t, first)
	next := queueUp(t, b, waiting("k", time.Minute), 1)
	reader.kill()
	release(t, granted(t, next, soon).Lease)
}

// Each reader's lease expires by its own TTL. A frozen reader and one that is not renewed lose their locks in time,
// although other readers are renewed, even those of the same client. A short TTL does not end a longer lease.
func TestReadersExpireAlone(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const ttl = 1500 * time.Millisecond
	b := opened(t, s.PostgresURL())
	c := dialed(t, s.PostgresURL())
	earliest := time.Now() // no reader's TTL began before
	frozen := startChild(t, s.PostgresURL(), "k", ttl, sharedChild)
	frozen.says("held")
	frozen.freeze()
	lasting := acquire(t, b, asReader(req("k", time.Minute)))
	renewed := acquire(t, b, asReader(req("k", ttl)))
	renew := func() {
		if err := renewed.Renew(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	renew() // at once, because a busy machine may stand still for a TTL
	begun := time.Now()
	short := acquire(t, b, asReader(req("k", ttl)))
	if n, _, _ := modes(t, c); n != 4 && time.Since(earliest) < ttl {
		t.Fatalf("%d readers, want 4", n)
	}
	until(t, ttl+maxLate+soon, "only the lasting and the renewed reader are left", func() bool {
		renew()
		n, _, _ := modes(t, c)
		return n == 2
	})
	if took := time.Since(begun); took < ttl/2 {
		t.Errorf("a reader ended after %v, of a TTL of %v", took, ttl)
	}
	lost(t, short, soon)
	if err := short.Renew(context.Background(), ttl); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renewal of a reader that has expired: %v", err)
	}
	busy(t, b, req("k", ttl))
	release(t, lasting)
	busy(t, b, req("k", ttl))
	release(t, renewed)
	release(t, acquire(t, b, req("k", ttl)))
}

// Inspect counts the readers, and describes the one whose lease ends last. Break ends one reader only.
func TestInspectAndBreakReaders(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, operator := opened(t, s.PostgresURL()), opened(t, s.PostgresURL())
	var owners []string
	var leases []backend.Lease
	for i, ttl := range []time.Duration{20 * time.Second, time.Minute, 40 * time.Second} {
		r := asReader(req("k", ttl))
		r.Owner = fmt.Sprint("reader ", i)
		owners, leases = append(owners, r.Owner), append(leases, acquire(t, b, r))
	}
	inspect := func(readers int, owner string, atLeast, waiters int) {
		t.Helper()
		h, err := operator.Inspect(context.Background(), "k")
		early := h.TTL < time.Duration(atLeast)*time.Second
		if err != nil || early || h.Shared != readers || h.Owner != owner || h.Waiters != waiters {
			t.Errorf("%+v, %v, want %d readers, %q with %ds or more, %d waiters", h, err, readers, owner, atLeast, waiters)
		}
	}
	inspect(3, owners[1], 41, 0)
	for _, i := range []int{1, 0} {
		if err := operator.Break(context.Background(), "k", owners[i]); err != nil {
			t.Fatal(err)
		}
		lost(t, leases[i], soon)
		if err := operator.Break(context.Background(), "k", owners[i]); !errors.Is(err, backend.ErrLost) {
			t.Errorf("second Break: %v, want ErrLost", err)
		}
	}
	r := waiting("k", time.Minute)
	writer := queueUp(t, operator, r, 1)
	inspect(1, owners[2], 21, 1)
	if err := leases[2].Renew(context.Background(), time.Minute); err != nil {
		t.Error(err)
	}
	release(t, leases[2])
	l := granted(t, writer, soon).Lease
	inspect(0, r.Owner, 21, 0)
	release(t, l)
	foreign := dialed(t, s.PostgresURL()+"&application_name=migrate")
	_ = query[string](t, foreign, "SELECT pg_advisory_lock_shared($1)::text", int64(hashOf("k")))
	mine := asReader(req("k", time.Minute))
	mine.Owner = "mine"
	l = acquire(t, b, mine)
	inspect(2, "mine", 21, 0)
	release(t, l)
	inspect(1, fmt.Sprintf("unknown@migrate:%d", foreign.PgConn().PID()), 0, 0)
}

// If the server keeps a session after its connection was reset, that session is terminated before the reader's attempt
// is repeated, so that one lease has one lock. A second shared lock would go unnoticed until a writer waits for its
// end.
func TestResetReaderLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	for mode, params := range variants {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wait=%v", mode, wait), func(t *testing.T) {
				t.Parallel()
				s, p, b := proxied(t, params)
				c := dialed(t, s.PostgresURL())
				release(t, acquire(t, b, asReader(req("k", time.Minute))))
				rest(t, b)
				p.set(func(p *proxy) { p.reset = true })
				r := asReader(req("k", time.Minute))
				r.Wait = wait
				l := acquire(t, b, r)
				p.set(func(p *proxy) {
					if p.reset {
						t.Error("no connection was reset")
					}
				})
				until(t, 2*soon, "the lease has one lock", func() bool { return locks(t, c) == 1 })
				release(t, l)
				if n := locks(t, c); n != 0 {
					t.Errorf("%d locks after release", n)
				}
			})
		}
	}
}
