package memcached

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// isLost fails the test unless a renewal and a release of a stale lease are ErrLost.
func isLost(t *testing.T, l backend.Lease) {
	t.Helper()
	ctx := context.Background()
	if err := l.Renew(ctx, time.Hour); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renew: %v, want ErrLost", err)
	}
	select {
	case <-l.Lost():
	case <-time.After(soon):
		t.Error("Lost is open after a renewal was ErrLost")
	}
	if err := l.Release(ctx); !errors.Is(err, backend.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
}

// After a restart, a new owner's item may have the number of the old owner's item. The stale holder's renewal and
// release do not change the new item, because they compare the owner.
func TestRestartGivesTheSameNumbers(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	stale, fresh := opened(t, "memcached://"+s.Addr), opened(t, "memcached://"+s.Addr)
	name := lockName("k")
	look := func() *memcache.Item {
		t.Helper()
		item, err := raw(t, s.Addr).Get(name)
		if err != nil {
			t.Fatal(err)
		}
		return item
	}
	both := func(b *Backend) (one, other backend.Lease, item *memcache.Item) {
		t.Helper()
		s.Kill()
		s.Start()
		one, other = acquire(t, b, req("k", time.Minute)), acquire(t, b, req("k2", time.Minute))
		return one, other, look()
	}
	renewed, released, before := both(stale)
	l, _, after := both(fresh)
	// a repeated request, after a broken connection, has used up a number
	for i := 0; before.CasID != after.CasID; i++ {
		if i == 10 {
			t.Fatalf("numbers %d and %d: the test proves nothing", before.CasID, after.CasID)
		}
		renewed, released, before = both(stale)
		l, _, after = both(fresh)
	}
	if err := released.Release(context.Background()); !errors.Is(err, backend.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
	isHeld(t, stale, "k2")
	isLost(t, renewed)
	if now := look(); string(now.Value) != string(after.Value) || now.CasID != after.CasID {
		t.Errorf("the stale holder has changed the new one's item from %q to %q", after.Value, now.Value)
	}
	if left := left(t, s.Addr, name); left > 65 {
		t.Errorf("the stale holder has prolonged the new one's lock to %ds", left)
	}
	release(t, l)
}

// After an eviction, a stale holder's requests do not affect the new owner. Only the server's item shows the loss,
// because the client still considers its lease live.
func TestStaleHolderSparesNewOne(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	a, b := opened(t, "memcached://"+s.Addr), opened(t, "memcached://"+s.Addr)
	for _, own := range []*Backend{a, b} { // the new owner may use the same client
		l := acquire(t, a, req("k", time.Minute))
		if err := evict(s.Addr, "k"); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, own, req("k", time.Minute))
		isLost(t, l)
		isHeld(t, a, "k")
		if err := next.Renew(context.Background(), time.Minute); err != nil {
			t.Error(err)
		}
		release(t, next)
	}
}

// Every compare-and-swap uses the connection on which its number was read, even under concurrency. No connection
// survives a restart of the server, so no number does.
func TestSwapUsesTheConnectionOfItsRead(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	b := opened(t, "memcached://"+p.Addr+patient)
	type request struct{ verb, names string }
	last := make(map[int]request) // by connection
	swaps := 0
	p.mu.Lock()
	p.trace = func(conn int, verb, name string) {
		switch before := last[conn]; {
		case verb == "cas":
			swaps++
			if before.verb != "gets" || before.names != name {
				t.Errorf("connection %d: cas of %s after %v", conn, name, before)
			}
		default:
			last[conn] = request{verb, name}
		}
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 30 {
				l, err := b.Acquire(context.Background(), req(fmt.Sprint(w, "-", i), time.Minute))
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Renew(context.Background(), time.Minute); err != nil {
					t.Error(err)
				}
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if swaps < 16*30*2 {
		t.Errorf("%d swaps", swaps)
	}
}

// If the server restarts between the read and the swap, the connection breaks. The swap detects this and reads again.
func TestRestartBetweenReadAndSwap(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	stale, fresh := opened(t, "memcached://"+p.Addr+patient), opened(t, "memcached://"+s.Addr)
	proved := make(map[string]bool)
	const most = 20 // a slow grant uses up more numbers
	for i := 0; i < 2*most && !(proved["renew"] && proved["release"]); i++ {
		what := []string{"renew", "release"}[i%2]
		s.Kill()
		s.Start()
		l := acquire(t, stale, req("k", time.Minute))
		before, err := raw(t, s.Addr).Get(lockName("k"))
		if err != nil {
			t.Fatal(err)
		}
		var next backend.Lease
		var once sync.Once
		p.set(func(verb string) action {
			if verb == "cas" {
				once.Do(func() {
					s.Kill()
					s.Start()
					next = acquire(t, fresh, req("k", time.Minute))
				})
			}
			return pass
		})
		if what == "renew" {
			err = l.Renew(context.Background(), time.Hour)
		} else {
			err = l.Release(context.Background())
		}
		// An earlier, unanswered release may have been executed.
		if !errors.Is(err, backend.ErrLost) && (what == "renew" || err != nil) {
			t.Errorf("%s: %v, want ErrLost", what, err)
		}
		after, err := raw(t, s.Addr).Get(lockName("k"))
		if err != nil {
			t.Fatalf("after a late %s the new owner's item: %v", what, err)
		}
		proved[what] = proved[what] || before.CasID == after.CasID
		if err := next.Renew(context.Background(), time.Minute); err != nil {
			t.Errorf("after a late %s the new owner's renewal: %v", what, err)
		}
		p.set(nil)
	}
	if !proved["renew"] || !proved["release"] {
		t.Errorf("the numbers were never the same: %v", proved)
	}
}

// If a restart drops a lock, the holder's next renewal reports the loss, alone and in a batch. It does not revive the
// lock.
func TestRestartLosesLease(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr)
	single, batched := acquire(t, b, req("k", time.Minute)), acquire(t, b, req("k2", time.Minute))
	s.Kill()
	s.Start()
	batch := []backend.Renewal{{Lease: batched, TTL: time.Minute}}
	if errs := b.RenewBatch(context.Background(), batch); !errors.Is(errs[0], backend.ErrLost) {
		t.Errorf("batch renewal: %v, want ErrLost", errs[0])
	}
	isLost(t, single)
	if _, err := raw(t, s.Addr).Get(lockName("k")); !errors.Is(err, memcache.ErrCacheMiss) {
		t.Errorf("a renewal has revived the lock: %v", err)
	}
}

// A full server drops locks, and the holder's next renewal reports the loss. With -M, the server refuses new locks
// instead.
func TestFullServer(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T, addr string, size, items int) error {
		t.Helper()
		c := raw(t, addr)
		for i := range items {
			err := c.Set(&memcache.Item{Key: fmt.Sprint("junk-", size, "-", i), Value: []byte(strings.Repeat("x", size))})
			if err != nil {
				return err
			}
		}
		return nil
	}
	t.Run("evicts", func(t *testing.T) {
		s := servers.Memcached(t, "-m", "2")
		b := opened(t, "memcached://"+s.Addr)
		l := acquire(t, b, req("k", time.Hour))
		if err := l.Renew(context.Background(), time.Hour); err != nil {
			t.Fatal(err)
		}
		item, err := raw(t, s.Addr).Get(lockName("k"))
		if err != nil {
			t.Fatal(err)
		}
		if err := fill(t, s.Addr, len(item.Value), 60000); err != nil {
			t.Fatal(err)
		}
		isLost(t, l)
		next := acquire(t, b, req("k", time.Hour))
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
	})
	t.Run("refuses", func(t *testing.T) {
		s := servers.Memcached(t, "-m", "2", "-M")
		b := opened(t, "memcached://"+s.Addr)
		l := acquire(t, b, req("k", time.Hour))
		item, err := raw(t, s.Addr).Get(lockName("k"))
		if err != nil {
			t.Fatal(err)
		}
		for size := len(item.Value) + 40; size > 0; size -= 8 { // all sizes that a lock may have
			if err := fill(t, s.Addr, size, 60000); err == nil {
				t.Fatal("the server is not full")
			}
		}
		_, err = b.Acquire(context.Background(), req("k2", time.Hour))
		if !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("acquire: %v, want ErrOutOfMemory", err)
		}
		if err := l.Renew(context.Background(), time.Hour); err != nil && !errors.Is(err, ErrOutOfMemory) {
			t.Errorf("renew: %v, want ErrOutOfMemory or nil", err)
		}
		select {
		case <-l.Lost():
			t.Error("a lock is lost that the server keeps")
		default:
		}
		if err := raw(t, s.Addr).FlushAll(); err != nil {
			t.Fatal(err)
		}
		acquire(t, b, req("k2", time.Hour)) // there is room again
	})
}
