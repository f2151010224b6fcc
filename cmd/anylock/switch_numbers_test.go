package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

// If the store counts its locks, the cut leaves room for the numbers that other clients use until every process uses
// both stores. pass draws numbers until they reach the cut.
func TestCutOfCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		s := &switchStore{Store: pair.Store{Backend: store.Client(), TokenBase: 1 << 40}, other: store.Client(), key: "probe"}
		defer s.close()
		others := store.Client()
		defer others.Close()
		const within, perSecond = 10 * time.Minute, 50
		done, ended := make(chan struct{}), make(chan struct{})
		defer func() {
			close(done)
			<-ended
		}()
		taken := atomic.Uint64{}
		go func() {
			defer close(ended)
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Second / perSecond):
				}
				storetest.Release(t, storetest.Acquire(t, others, storetest.Try("other", time.Second)))
				taken.Add(1)
			}
		}()
		c, err := s.findCut(t.Context(), within)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.found, "room for") || !strings.Contains(c.limit, "more numbers are used") {
			t.Errorf("found by %q, %q", c.found, c.limit)
		}
		before := taken.Load()
		time.Sleep(within)
		synctest.Wait()
		now, err := s.number(t.Context())
		if err != nil || now >= c.number || c.number-now > 3*(taken.Load()-before) {
			t.Errorf("number %d, %v after %v in which others took %d, want the cut %d above it, and not by much more", now, err,
				within, taken.Load()-before, c.number)
		}
		asked, begun := 0, time.Now()
		n, err := s.pass(t.Context(), c.number, func(uint64) { asked++ })
		if err != nil || n < c.number || asked == 0 {
			t.Errorf("passed %d at %d, %v, after %d numbers", c.number, n, err, asked)
		}
		if took := time.Since(begun); took < pair.SwitchDelay {
			t.Errorf("passed after %v, want %v for leases that are just granted", took, pair.SwitchDelay)
		}
	})
}

// If the store's numbers follow a clock, they reach the cut within the given time, even if the reply to a probe was
// late.
func TestCutOfClock(t *testing.T) {
	for name, stalled := range map[string]int{"steady": 0, "before the second": 21, "after it": 22} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, asked := memory.NewStore(), 0
				client := func() backend.Backend {
					return clocked{store.Client(), func() {
						if asked++; asked == stalled {
							time.Sleep(300 * time.Millisecond)
						}
					}}
				}
				s := &switchStore{Store: pair.Store{Backend: client()}, other: client(), key: "probe"}
				defer s.close()
				const within = 10 * time.Minute
				c, err := s.findCut(t.Context(), within)
				if err != nil {
					t.Fatal(err)
				}
				if reached := time.UnixMicro(int64(c.number)); !strings.Contains(c.found, "follow a clock") ||
					time.Until(reached) > within {
					t.Errorf("found by %q; reached in %v, want %v", c.found, time.Until(reached), within)
				}
			})
		})
	}
}

// A store whose numbers fall while they are measured has lost data. They show nothing about its later numbers.
func TestNoCutOfFallingNumbers(t *testing.T) {
	for name, lost := range map[string]int{"in a row": 15, "in the second": 22} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, drawn := memory.NewStore(), uint64(1000)
				client := func() backend.Backend { return falling{store.Client(), &drawn, 1000 + uint64(lost)} }
				s := &switchStore{Store: pair.Store{Backend: client()}, other: client(), key: "probe"}
				defer s.close()
				if c, err := s.findCut(t.Context(), time.Hour); !errors.Is(err, backend.ErrUnavailable) {
					t.Errorf("cut %+v, %v", c, err)
				}
			})
		})
	}
}

// A falling store counts its leases. It begins again with 1 once its count has reached a limit.
type falling struct {
	backend.Backend
	drawn *uint64
	limit uint64
}

func (f falling) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := f.Backend.Acquire(ctx, r)
	if *f.drawn++; *f.drawn == f.limit {
		*f.drawn = 1
	}
	return clockedLease{l, *f.drawn}, err
}

// A clocked store numbers its leases by a clock. Its replies may be late.
type clocked struct {
	backend.Backend
	answered func()
}

func (c clocked) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := c.Backend.Acquire(ctx, r)
	defer c.answered()
	time.Sleep(time.Microsecond) // sleeps: a slow store; in fake time
	return clockedLease{l, uint64(time.Now().UnixMicro())}, err
}

type clockedLease struct {
	backend.Lease
	token uint64
}

func (l clockedLease) Token() uint64 { return l.token }

// pass also reaches the cut on a store whose numbers are revisions, where each lock uses several of them.
func TestCutOfEtcd(t *testing.T) {
	storetest.Long(t, "takes some thousands of locks")
	t.Parallel()
	url := servers.EtcdURL(t)
	s, err := openSwitched(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c, err := s.findCut(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.number(t.Context())
	if err != nil || now >= c.number || !strings.Contains(c.found, "room for") {
		t.Fatalf("the cut %d, found by %q; the number %d, %v", c.number, c.found, now, err)
	}
	t.Log(c.found)
	asked := 0
	if n, err := s.pass(t.Context(), c.number, func(uint64) { asked++ }); err != nil || n < c.number || asked < 5000 {
		t.Errorf("passed %d at %d, %v, after %d numbers", c.number, n, err, asked)
	}
	both, err := pair.OpenStore(context.Background(),
		pair.URL(url, "file://"+t.TempDir()+"?lock_token_base="+strconv.FormatUint(c.number, 10), c.number))
	if err != nil {
		t.Fatal(err)
	}
	defer both.Backend.Close()
	l := storetest.Acquire(t, both.Backend, storetest.Try("key", 10*time.Second))
	defer storetest.Release(t, l)
	if l.Token() < c.number {
		t.Errorf("token %d after the cut %d", l.Token(), c.number)
	}
}

// A client may still use the old store alone when its numbers have passed the cut, because a deploy was slow or the
// numbers jumped. The tokens of such a client are lower than every token of the new store.
func TestBaseLeavesRoomForLateOnes(t *testing.T) {
	t.Parallel()
	old, err := openSwitched(t.Context(), fileURL(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer old.close()
	store := memory.NewStore() // counts from 1
	next := &switchStore{Store: pair.Store{Backend: store.Client()}, url: "memory:", other: store.Client()}
	defer next.close()
	const within = time.Millisecond
	p, err := planSwitch(t.Context(), old, next, within)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * within) // sleeps: the store's numbers, which follow its clock, must pass the cut
	late, err := old.number(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	both := pair.New(old.Store, pair.Store{Backend: next.Backend, TokenBase: p.Base}, p.Cut)
	l := storetest.Acquire(t, both, storetest.Try("key", 10*time.Second))
	defer storetest.Release(t, l)
	if late < p.Cut || l.Token() <= late {
		t.Errorf("the cut %d, a late one's token %d, the next token %d", p.Cut, late, l.Token())
	}
	const leader = 1 << 32 // ZooKeeper's numbers jump by this much at each election of a leader
	if p.Base < p.Cut+10*leader {
		t.Errorf("the cut %d, the base %d", p.Cut, p.Base)
	}
}
