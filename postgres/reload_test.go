package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// A PgBouncer that is switched from session to transaction pooling under running clients gives several of them one session, which
// would be granted its own lock again. Never do two hold the key, and new clients are told.
func TestPoolerSwitchedUnderLoad(t *testing.T) {
	t.Parallel()
	s := shared(t)
	bouncer := servers.PgBouncer(t, s.Server, "session", "default_pool_size=20", "admin_users=postgres")
	url := s.via(bouncer.Addr)
	const workers, ttl = 6, 2 * time.Second
	var (
		wg       sync.WaitGroup
		inner    sync.Mutex // held by who holds the key
		grants   [2]atomic.Int64
		switched atomic.Bool
		refused  atomic.Int64
	)
	ctx, cancel := context.WithCancel(context.Background())
	defer wg.Wait()
	defer cancel()
	for range workers {
		b := opened(t, url)
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if n%20 == 0 {
					b.cut() // it connects anew
				}
				l, err := b.Acquire(ctx, req("k", ttl))
				if errors.Is(err, backend.ErrUnsupported) {
					refused.Add(1)
				}
				if err != nil {
					time.Sleep(time.Millisecond) // sleeps: a pause between attempts: the key is held, or another client has the session
					continue
				}
				if !inner.TryLock() {
					t.Error("two hold the key")
					cancel()
					return
				}
				after := 0
				if switched.Load() {
					after = 1
				}
				grants[after].Add(1)
				time.Sleep(5 * time.Millisecond) // sleeps: the work under the lock
				_ = l.Renew(ctx, ttl)
				inner.Unlock()
				_ = l.Release(context.Background())
			}
		})
	}
	until(t, 3*soon, "they work", func() bool { return grants[0].Load() > 50 })
	poolMode(t, bouncer, "transaction")
	switched.Store(true)
	select {
	case <-ctx.Done():
	case <-time.After(3 * time.Second): // the time that is looked at
	}
	cancel()
	wg.Wait()
	t.Logf("%d grants before, %d after, %d clients refused", grants[0].Load(), grants[1].Load(), refused.Load())
	if refused.Load() == 0 {
		t.Error("no client was told")
	}
}

// Two clients to which a pooler has given one session, both of which have looked at it, do not both hold a key.
func TestPoolerGivesOneSessionToTwo(t *testing.T) {
	t.Parallel()
	s := shared(t)
	bouncer := servers.PgBouncer(t, s.Server, "session", "default_pool_size=20", "admin_users=postgres")
	url := s.via(bouncer.Addr)
	a, b := opened(t, url), opened(t, url)
	// New connections are made under the new mode, of which the clients know nothing.
	a.cut()
	b.cut()
	poolMode(t, bouncer, "transaction")
	for i := range 3 {
		held := 0
		for _, one := range []*Backend{a, b} {
			l, err := one.Acquire(context.Background(), req("k", time.Minute))
			if err != nil {
				t.Logf("round %d: %v", i, err)
				continue
			}
			if err := l.Renew(context.Background(), time.Minute); err == nil {
				held++
			}
			defer l.Release(context.Background())
		}
		if held > 1 {
			t.Fatal("two owners, which both have renewed")
		}
	}
}

// poolMode switches a PgBouncer, as its operator does, and returns when it has.
func poolMode(t *testing.T, bouncer *servers.Server, mode string) {
	t.Helper()
	file := filepath.Join(bouncer.Dir, "pgbouncer.ini")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Index(string(text), "pool_mode = ")
	end := was + strings.Index(string(text[was:]), "\n")
	changed := string(text[:was]) + "pool_mode = " + mode + string(text[end:])
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	c := dialed(t, "postgres://postgres@"+bouncer.Addr+"/pgbouncer?sslmode=disable&default_query_exec_mode=simple_protocol")
	if _, err := c.Exec(context.Background(), "RELOAD"); err != nil {
		t.Fatal(err)
	}
}
