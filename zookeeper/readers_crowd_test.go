package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// A crowd checks that the leases of one key exclude each other as their modes require, and that their tokens increase.
type crowd struct {
	mu               sync.Mutex
	readers, writers int
	most             int    // readers at once
	writer, reader   uint64 // the highest tokens so far
	faults           []string
}

func (c *crowd) enter(l backend.Lease, isShared bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writers > 0 || !isShared && c.readers > 0 {
		fault := fmt.Sprintf("shared %v beside %d readers and %d writers", isShared, c.readers, c.writers)
		c.faults = append(c.faults, fault)
	}
	if l.Token() <= c.writer || !isShared && l.Token() <= c.reader {
		fault := fmt.Sprintf("shared %v: token %d after %d and %d", isShared, l.Token(), c.writer, c.reader)
		c.faults = append(c.faults, fault)
	}
	if isShared {
		c.readers++
		c.most = max(c.most, c.readers)
		c.reader = max(c.reader, l.Token())
	} else {
		c.writers++
		c.writer = l.Token()
	}
}

func (c *crowd) leave(isShared bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isShared {
		c.readers--
	} else {
		c.writers--
	}
}

// contend makes each store try n times to acquire a key, in the modes that isShared chooses.
func (c *crowd) contend(t *testing.T, stores []*Backend, key string, n int, isShared func() bool) {
	t.Helper()
	var group sync.WaitGroup
	for i, b := range stores {
		group.Go(func() {
			for k := 0; k < n && t.Context().Err() == nil; k++ {
				r := backend.Request{
					Key: key, Owner: backend.NewOwner(), TTL: time.Minute, Wait: i%2 == 0, Shared: isShared(),
				}
				l, err := b.Acquire(t.Context(), r)
				if errors.Is(err, backend.ErrHeld) {
					time.Sleep(time.Millisecond) // sleeps: a pause between attempts
					continue
				}
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				c.enter(l, r.Shared)
				time.Sleep(rand.N(3 * time.Millisecond)) // sleeps: the work under the lock
				c.leave(r.Shared)
				if err := l.Release(context.Background()); err != nil {
					t.Errorf("client %d: release: %v", i, err)
				}
			}
		})
	}
	group.Wait()
	for i, fault := range c.faults {
		if t.Error(fault); i == 5 {
			break
		}
	}
}

// Leases of many clients exclude each other as their modes require, even if some attempts do not wait, some give up,
// and some clients lose their connections.
func TestReadersAndWritersContend(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	stores := make([]*Backend, 8)
	for i := range stores {
		stores[i] = opened(t, s.url())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var disturbed sync.WaitGroup
	var gaveUp atomic.Int32
	disturbed.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			short, stop := context.WithTimeout(ctx, rand.N(5*time.Millisecond))
			if l, err := stores[n%len(stores)].Acquire(short, waiting("k", time.Minute)); err == nil {
				release(t, l)
			} else {
				gaveUp.Add(1)
			}
			stop()
			if n%20 == 0 {
				cut(stores[rand.N(len(stores))])
			}
		}
	})
	c := new(crowd)
	n := 60
	if testing.Short() {
		n = 20
	}
	c.contend(t, stores, "k", n, func() bool { return rand.N(3) > 0 })
	cancel()
	disturbed.Wait()
	t.Logf("up to %d readers at once; %d writers gave up", c.most, gaveUp.Load())
	if c.most < 2 {
		t.Error("no readers were beside each other")
	}
	until(t, soon, "nothing is left", func() bool { return len(places(t, raw(t, s.Addr), stores[0], "k")) == 0 })
}

// Leases exclude each other as their modes require, also through different servers of an ensemble, whose reads may be
// stale.
func TestReadersAndWritersContendOnEnsemble(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "an ensemble")
	list := servers.ZooKeeperEnsemble(t, 3)
	stores := make([]*Backend, 9)
	for i := range stores {
		stores[i] = opened(t, "zookeeper://"+list[i%len(list)].Addr)
	}
	c := new(crowd)
	c.contend(t, stores, "k", 60, func() bool { return rand.N(3) > 0 })
	t.Logf("up to %d readers at once", c.most)
}
