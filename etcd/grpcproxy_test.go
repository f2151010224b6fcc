package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// throughProxy returns a store that reaches the server through "etcd grpc-proxy".
func throughProxy(t *testing.T, s site) *Backend {
	t.Helper()
	return opened(t, s.via(servers.EtcdProxy(t, s.Addr).Addr))
}

// Waiters behind a proxy are granted the key soon after its release, whether or not the holder is behind the same
// proxy.
func TestHandOverThroughProxy(t *testing.T) {
	t.Parallel()
	s := shared(t)
	handOverSoon(t, s, throughProxy(t, s))
}

func TestHandOverThroughCurrentProxy(t *testing.T) {
	storetest.Long(t, "the current etcd is built")
	t.Parallel()
	s := site{servers.EtcdCurrent(t), defaultNamespace}
	b := opened(t, s.via(servers.EtcdProxyCurrent(t, s.Addr).Addr))
	if !b.proxied.Load() {
		t.Error("the proxy was not recognized")
	}
	handOverSoon(t, s, b)
}

// handOverSoon hands a key over from a direct client of s to b, and then from b to b.
func handOverSoon(t *testing.T, s site, b *Backend) {
	t.Helper()
	direct := opened(t, s.URL())
	const (
		rounds = 10
		quick  = 100 * time.Millisecond // most hand-overs on a quiet machine, some on a busy one
		most   = time.Second            // a hand-over that only a recheck detects takes several seconds
	)
	quickly, slow, slowest := 0, 0, time.Duration(0)
	holder := acquire(t, direct, req("k", time.Minute))
	for range rounds {
		next := queueUp(t, b, waiting("k", time.Minute), 1)
		time.Sleep(2 * guardAfter) // sleeps: until the holder and the waiter watch the holder's key
		begun := time.Now()
		release(t, holder)
		o := granted(t, next, 2*recheck)
		took := o.At.Sub(begun)
		slowest = max(slowest, took)
		if took <= quick {
			quickly++
		}
		if took > most {
			slow++
		}
		holder = o.Lease
	}
	t.Logf("the slowest of %d hand-overs took %v", rounds, slowest)
	release(t, holder)
	if slow > rounds/3 || quickly < rounds/5 { // the machine may be busy
		t.Errorf("%d of %d hand-overs took longer than %v, and %d at most %v", slow, rounds, most, quickly, quick)
	}
}

// A holder behind a proxy is notified of the loss of its own key, and of no other key.
func TestLossThroughProxy(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, w := throughProxy(t, s), raw(t, s.Addr)
	const keys = 6
	var list []backend.Lease
	for i := range keys {
		list = append(list, acquire(t, b, req(fmt.Sprint(i), time.Minute)))
	}
	watched(t, b, list...)
	for i, removed := range list {
		if err := evictIn(t.Context(), w, s.namespace, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-removed.Lost():
		case <-time.After(soon):
			t.Fatalf("holder %d was not notified", i)
		}
		for k, kept := range list[i+1:] {
			if _, err := b.Inspect(t.Context(), "any"); err != nil { // a round trip, in which a wrong notification would arrive
				t.Fatal(err)
			}
			select {
			case <-kept.Lost():
				t.Fatalf("holder %d was notified of the loss of key %d", i+1+k, i)
			default:
			}
		}
	}
}

// A lease behind a proxy lives as long as it is renewed. Without renewals it ends on time, because the proxy does not
// renew it by itself.
func TestRenewalThroughProxy(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, direct := throughProxy(t, s), opened(t, s.URL())
	const ttl = 6 * time.Second // a renewal has a third of it, which outlasts a stall of the machine
	l, batched := acquire(t, b, req("k", ttl)), acquire(t, b, req("b", ttl))
	for end := time.Now().Add(ttl + ttl/2); time.Now().Before(end); time.Sleep(ttl / 4) { // sleeps: the pace of renewals
		if err := l.Renew(t.Context(), ttl); err != nil {
			t.Fatalf("renewal: %v", err)
		}
		if err := b.RenewBatch(t.Context(), []backend.Renewal{{Lease: batched, TTL: ttl}})[0]; err != nil {
			t.Fatalf("renewal in a batch: %v", err)
		}
		if _, err := direct.Acquire(t.Context(), req("k", ttl)); !errors.Is(err, backend.ErrHeld) {
			t.Fatalf("a second owner: %v", err)
		}
	}
	renewed := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 4*ttl)
	defer cancel()
	next, err := direct.Acquire(ctx, waiting("k", ttl))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(renewed); took > ttl+maxLate || time.Now().Before(l.Deadline()) {
		t.Errorf("free %v after the last renewal, want %v to %v", took, ttl, ttl+maxLate)
	}
	release(t, next)
}

// The watch stream of a silent client through a proxy stays open, although a proxy of 3.4 permits no pings.
func TestQuietStreamThroughProxyStays(t *testing.T) {
	storetest.Long(t, "waits for several pings")
	t.Parallel()
	b := throughProxy(t, shared(t))
	l := acquire(t, b, req("k", time.Hour))
	watched(t, b, l)
	before := b.watches.stream()
	time.Sleep(5 * pingAfter) // sleeps: the proxy would close the connection at the third ping
	if now := b.watches.stream(); now == nil || now != before {
		t.Errorf("the stream was replaced: %p, was %p", now, before)
	}
	release(t, l)
}

// A waiter behind a proxy keeps its place for longer than one etcd lease of the place lives.
func TestPlaceThroughProxy(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, direct, w := throughProxy(t, s), opened(t, s.URL()), raw(t, s.Addr)
	const ttl = 4 * time.Second // a machine that stands still for longer loses the place
	holder := acquire(t, direct, req("k", time.Minute))
	r := waiting("k", ttl)
	first := queueUp(t, b, r, 1)
	place := get(t, w, ownKey(t, w, r.Owner))
	second := queueUp(t, direct, waiting("k", time.Minute), 2)
	until(t, 10*ttl, "the place has had three leases", func() func() bool {
		seen := map[int64]bool{}
		return func() bool {
			now := find(t, w, ownKey(t, w, r.Owner))
			if now == nil || now.CreateRevision != place.CreateRevision {
				t.Fatalf("the place is lost: %+v, was %+v", now, place)
			}
			seen[now.Lease] = true
			return len(seen) > 3 // each lives for a second longer than ttl, and is replaced after a third of that
		}
	}())
	release(t, holder)
	l := granted(t, first, soon).Lease
	if l.Token() != uint64(place.CreateRevision) {
		t.Errorf("token %d, the place was %d", l.Token(), place.CreateRevision)
	}
	release(t, l)
	release(t, granted(t, second, soon).Lease)
}

// A client with several addresses may reach a proxy only after it was opened. The first renewal reveals the proxy, and
// moves the lock to a new etcd lease.
func TestRenewalRevealsProxy(t *testing.T) {
	t.Parallel()
	b := throughProxy(t, shared(t))
	b.proxied.Store(false)
	const ttl = 10 * time.Second
	l := acquire(t, b, req("k", ttl))
	before := leaseOf(l)
	if err := l.Renew(t.Context(), ttl); err != nil {
		t.Fatal(err)
	}
	if !b.proxied.Load() || leaseOf(l) == before {
		t.Errorf("the proxy was recognized: %v; the lock has another lease: %v", b.proxied.Load(), leaseOf(l) != before)
	}
	release(t, l)
}

// Watches that are created and stopped at the same time through a proxy are not mixed up: each reports the deletion of
// its own key, and of no other.
func TestWatchesThroughProxyAreNotMixedUp(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, c := throughProxy(t, s), raw(t, s.Addr)
	const watchers, each = 8, 25
	var running sync.WaitGroup
	for i := range watchers {
		running.Go(func() {
			for n := range each {
				key := fmt.Sprintf("%s/mixed/%d-%d", s.namespace, i, n)
				put, err := c.Put(context.Background(), key, "")
				if err != nil {
					t.Error(err)
					return
				}
				created, deleted := make(chan struct{}), make(chan int64, 1)
				begun := sync.OnceFunc(func() { close(created) })
				w := b.watches.add(&watch{contender: contender{key, put.Header.Revision},
					created: func(int64) { begun() }, deleted: func(at int64) { deleted <- at }})
				if n%3 == 0 { // perhaps before it was created
					b.watches.stop(w)
					continue
				}
				select {
				case <-created:
				case <-time.After(3 * soon):
					t.Errorf("%s is not watched", key)
					return
				}
				gone, err := c.Delete(context.Background(), key)
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case at := <-deleted:
					if at != gone.Header.Revision {
						t.Errorf("the watch of %s reports a deletion at %d, want %d", key, at, gone.Header.Revision)
					}
				case <-time.After(soon):
					t.Errorf("the deletion of %s is not reported", key)
					return
				}
			}
		})
	}
	running.Wait()
}

// A waiter keeps its place for longer than the lease of the place lives without renewals.
func TestPlaceIsRenewed(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, w := opened(t, s.URL()), raw(t, s.Addr)
	const ttl = 4 * time.Second
	holder := acquire(t, b, req("k", time.Minute))
	r := waiting("k", ttl)
	done := queueUp(t, b, r, 1)
	place := get(t, w, ownKey(t, w, r.Owner))
	time.Sleep(ttl + extraTTL + 1500*time.Millisecond) // sleeps: the lease must have expired without renewals
	if now := find(t, w, ownKey(t, w, r.Owner)); now == nil || *now != place {
		t.Errorf("the place is %+v, was %+v", now, place)
	}
	release(t, holder)
	release(t, granted(t, done, soon).Lease)
}
