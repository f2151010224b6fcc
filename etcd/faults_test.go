package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// E1. Two owners of one client, and of one lease class, exclude each other.
func TestOneClientTwoOwners(t *testing.T) {
	t.Parallel()
	b := opened(t, shared(t).URL())
	l := acquire(t, b, req("k", time.Minute))
	if _, err := b.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a second owner of the same client: %v", err)
	}
	release(t, l)
}

// E2. If the reply to an acquire is lost, and its context ends before a retry is answered, no key remains.
func TestLostReplyLeavesNothing(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	for _, wait := range []bool{false, true} {
		p := storetest.NewProxy(t, s.Addr)
		b := opened(t, s.via(p.Addr))
		for range 5 {
			warm(t, b, 30*time.Second) // now the client is connected and has a lease
			// Until the context has ended, the server executes requests, but every reply is lost, also on new connections.
			p.Set(func(p *storetest.Proxy) { p.Replies = func([]byte) bool { return false } })
			r := req("k", 30*time.Second)
			r.Wait = wait
			ctx, cancel := context.WithCancel(t.Context())
			done := startAcquire(ctx, b, r)
			until(t, soon, "the request is carried out", func() bool { return s.countKeys(t, c) == 1 })
			cancel()
			o := <-done
			if o.Lease != nil || !errors.Is(o.Err, context.Canceled) {
				t.Fatalf("acquire without an answer: %v, %v", o.Lease, o.Err)
			}
			p.Set(func(p *storetest.Proxy) { p.Replies = nil })
			p.Cut()
			until(t, time.Second+soon, "the key of a given-up acquire is gone", func() bool { return s.countKeys(t, c) == 0 })
		}
	}
}

// If a server does not reply, the error is ErrUnavailable. It is not a context error, because the caller's context has
// not ended: callers give up after a context error.
func TestSilenceIsNoContextError(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.via(p.Addr))
	warm(t, b, 30*time.Second)
	// Long enough that a renewal can detect the silence, even if the machine stands still for a while.
	const ttl = 12 * time.Second
	l, batched, ending := acquire(t, b, req("k", ttl)), acquire(t, b, req("b", ttl)), acquire(t, b, req("e", time.Minute))
	p.Set(func(p *storetest.Proxy) { p.Replies = func([]byte) bool { return false } })
	defer p.Set(func(p *storetest.Proxy) { p.Replies = nil })
	var asked sync.WaitGroup
	for what, ask := range map[string]func() error{
		"renewal": func() error { return l.Renew(t.Context(), ttl) },
		"renewal in a batch": func() error {
			return b.RenewBatch(t.Context(),
				[]backend.Renewal{{Lease: batched, TTL: ttl}})[0]
		},
		"release": func() error { return ending.Release(t.Context()) },
		"acquire": func() error { _, err := b.Acquire(t.Context(), req("other", 30*time.Second)); return err },
		"first to wait": func() error {
			_, err := b.Acquire(t.Context(),
				waiting("another", 30*time.Second))
			return err
		},
		"inspect": func() error { _, err := b.Inspect(t.Context(), "k"); return err },
	} {
		asked.Go(func() {
			err := ask()
			if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, context.Canceled) {
				t.Errorf("%s without an answer: %v", what, err)
			}
		})
	}
	asked.Wait()
}

// An endingLink cancels a context when a transaction is answered.
type endingLink struct {
	end atomic.Pointer[context.CancelFunc]
}

func (e *endingLink) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if end := e.end.Load(); end != nil && err == nil && strings.HasSuffix(method, "/Txn") {
		(*end)()
	}
	return err
}

// leaseOf returns the etcd lease to which the key of a lock is bound.
func leaseOf(l backend.Lease) *lease {
	h := l.(*kit.Life).Data.(*boundKey)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// If the context of a waiting Acquire ends, the error matches ErrHeld if the key was busy, but not if no reply arrived.
func TestEndOfAWaitTellsBusyFromSilent(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	link := &endingLink{}
	b := intercepted(t, p.Addr, s.options(), link.unary)
	other := opened(t, s.URL())
	holder := acquire(t, other, req("k", time.Minute))
	for _, lately := range []bool{false, true} { // the first request finds the key busy, or queues at once
		if lately {
			b.lastBusy.Store(time.Now().Add(time.Hour).UnixNano())
		}
		ctx, cancel := context.WithCancel(t.Context())
		link.end.Store(&cancel)
		_, err := b.Acquire(ctx, waiting("k", placeTTL))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, backend.ErrHeld) {
			t.Errorf("the end of a wait behind a holder, queued at once %v: %v", lately, err)
		}
		link.end.Store(nil)
		cancel()
	}
	release(t, holder)
	p.Set(func(p *storetest.Proxy) { p.Replies = func([]byte) bool { return false } })
	defer p.Set(func(p *storetest.Proxy) { p.Replies = nil })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := b.Acquire(ctx, waiting("k", time.Minute))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrHeld) {
		t.Errorf("the end of a wait for a silent server: %v", err)
	}
}

// If the reply to an acquire is lost, the request is repeated, and recognizes the key that it has written.
func TestLostReplyIsRepeated(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	b, c := opened(t, s.via(p.Addr)), raw(t, s.Addr)
	for _, r := range []backend.Request{req("a", 30*time.Second), waiting("b", 30*time.Second), waiting("c", time.Hour)} {
		warm(t, b, r.TTL)
		lost := p.LoseReply()
		l := acquire(t, b, r)
		select {
		case <-lost:
		case <-time.After(soon):
			t.Fatal("no reply was lost: the test proves nothing")
		}
		if _, err := b.Acquire(t.Context(), req(r.Key, time.Minute)); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("a second owner: %v", err)
		}
		release(t, l)
		until(t, soon, "nothing is left", func() bool { return s.countKeys(t, c) == 0 })
	}
}

// E3. A waiter whose lease was revoked has lost its place. Before the holder releases the key, the waiter detects that
// and queues again. It is never granted the key for its old place.
func TestRevokedWaiterQueuesAgain(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b := opened(t, s.URL())
	for _, ttl := range []time.Duration{10 * time.Second, time.Hour} {
		holder := acquire(t, b, req("k", time.Minute))
		r := waiting("k", ttl)
		done := queueUp(t, b, r, 1)
		own := ownKey(t, c, r.Owner)
		before := get(t, c, own)
		if _, err := c.Revoke(t.Context(), clientv3.LeaseID(before.Lease)); err != nil {
			t.Fatal(err)
		}
		until(t, 20*time.Second, "the waiter has a new place", func() bool {
			kv := find(t, c, ownKey(t, c, r.Owner))
			return kv != nil && kv.CreateRevision > before.CreateRevision
		})
		release(t, holder)
		o := granted(t, done, soon)
		if o.Lease.Token() <= uint64(before.CreateRevision) {
			t.Errorf("token %d is that of the lost place", o.Lease.Token())
		}
		release(t, o.Lease)
	}
}

// A waiter outlives an outage even if it was queued for longer than its patience, which counts from its first failed
// request.
func TestOldWaiterOutlivesOutage(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	b, err := onClient(opened(t, s.via(p.Addr)).client, &Options{Namespace: s.namespace, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	holder := acquire(t, opened(t, s.URL()), req("k", time.Minute))
	const leastPatience = 10 * time.Second
	done := queueUp(t, b, waiting("k", leastPatience), 1)
	time.Sleep(leastPatience + time.Second) // sleeps: the waiter must be queued for longer than its patience
	p.Refuse(true)
	p.Cut()
	select {
	case o := <-done:
		t.Fatalf("the waiter did not outlive the outage: %v", o.Err)
	case <-time.After(leastPatience / 2):
	}
	p.Refuse(false)
	release(t, holder)
	release(t, granted(t, done, 3*soon).Lease)
}

// When its turn comes, a waiter's key may be bound to a foreign lease, for example if a delayed request wrote the key
// after the place was lost. The grant binds the key to the lock's own lease, because nobody renews the other lease.
func TestGrantedKeyHasTheLocksLease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b := opened(t, s.URL())
	holder := acquire(t, b, req("k", time.Minute))
	r := waiting("k", 20*time.Second)
	done := queueUp(t, b, r, 1)
	own := ownKey(t, c, r.Owner)
	other, err := c.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), own, r.Owner, clientv3.WithLease(other.ID)); err != nil {
		t.Fatal(err)
	}
	release(t, holder)
	l := granted(t, done, soon).Lease
	if bound := get(t, c, own).Lease; bound != l.(*kit.Life).Data.(*boundKey).lease.id {
		t.Error("the key of a lock is not bound to its lease")
	}
	if _, err := c.Revoke(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	if find(t, c, own) == nil {
		t.Error("the key is gone")
	}
	release(t, l)
}

// E4. A holder that is cut off reports the loss of its lease before another client is granted the key.
func TestCutOffHolderLosesFirst(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	b, other := opened(t, s.via(p.Addr)), opened(t, s.URL())
	const ttl = 4 * time.Second
	l := acquire(t, b, req("k", time.Minute))
	done := queueUp(t, other, waiting("k", time.Minute), 1)
	for range 2 { // the first shortens the TTL; the second only moves the deadline
		if err := l.Renew(t.Context(), ttl); err != nil {
			t.Fatal(err)
		}
	}
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	go func() { _ = l.Renew(context.Background(), ttl) }()
	o := granted(t, done, 20*time.Second)
	select {
	case <-l.Lost():
	default:
		t.Error("another client has the key and Lost is not closed")
	}
	if early := l.Deadline().Sub(o.At); early > 0 {
		t.Errorf("another client has the key %v before the deadline", early)
	}
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	p.Cut()
	release(t, o.Lease)
}

// E5. A waiter keeps its place and is woken, even if the revisions since it began to wait have been compacted.
func TestCompactionKeepsWaiter(t *testing.T) {
	t.Parallel()
	s := private(t)
	c := raw(t, s.Addr)
	p := storetest.NewProxy(t, s.Addr)
	b, other := opened(t, s.URL()), opened(t, s.via(p.Addr))
	holder := acquire(t, b, req("k", time.Minute))
	r := waiting("k", 10*time.Second)
	done := queueUp(t, other, r, 1)
	next := queueUp(t, b, waiting("k", 10*time.Second), 2)
	place := get(t, c, ownKey(t, c, r.Owner)).CreateRevision
	var last int64
	for range 20 {
		resp, err := c.Put(t.Context(), "elsewhere", "v")
		if err != nil {
			t.Fatal(err)
		}
		last = resp.Header.Revision
	}
	if _, err := c.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	stream := other.watches.stream()
	p.Cut() // the watch must begin again, after the compaction
	until(t, soon, "the stream has broken", func() bool { return other.watches.stream() != stream })
	watched(t, other)
	begun := time.Now()
	release(t, holder)
	o := granted(t, done, soon)
	if o.Lease.Token() != uint64(place) {
		t.Errorf("token %d, the place was %d", o.Lease.Token(), place)
	}
	t.Logf("granted %v after release", o.At.Sub(begun))
	select {
	case <-next:
		t.Error("the waiter behind came first")
	default:
	}
	release(t, o.Lease)
	release(t, granted(t, next, soon).Lease)
}

// E8. Keys and namespaces with common prefixes do not conflict.
func TestPrefixesAreSeparate(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var held []backend.Lease
	for _, ns := range []string{"a", "a/b", "a/b/c"} {
		b := opened(t, s.URL()+"/"+ns)
		for _, key := range []string{"a", "a/b", "a/", "b", "b/c", "~b", "b/~c", "/", "~"} {
			held = append(held, acquire(t, b, req(key, time.Minute)))
		}
	}
	for _, l := range held {
		release(t, l)
	}
}

// If somebody deletes a held key or revokes its lease, the holder reports the loss at once, and the lease is revoked. A
// renewal would not detect a deleted key.
func TestDeletedKeyIsLost(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b := opened(t, s.URL())
	for name, end := range map[string]func(own string){
		"deleted": func(own string) {
			if _, err := c.Delete(t.Context(), own); err != nil {
				t.Fatal(err)
			}
		},
		"revoked": func(own string) {
			if _, err := clientv3.RetryLeaseClient(c).LeaseRevoke(t.Context(),
				&pb.LeaseRevokeRequest{ID: get(t, c, own).Lease}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		r := req(name, time.Hour)
		l := acquire(t, b, r)
		watched(t, b, l)
		begun := time.Now()
		own := ownKey(t, c, r.Owner)
		bound := clientv3.LeaseID(get(t, c, own).Lease)
		end(own)
		select {
		case <-l.Lost():
			t.Logf("%s: lost after %v", name, time.Since(begun))
		case <-time.After(soon):
			t.Errorf("%s: Lost is not closed", name)
		}
		if err := l.Renew(t.Context(), time.Hour); !errors.Is(err, backend.ErrLost) {
			t.Errorf("%s: renewal: %v", name, err)
		}
		until(t, soon, "the lease of a key that is gone is revoked", func() bool { return isGone(t, c, bound) })
	}
	// A key that is deleted before its watch begins.
	r := req("soon", time.Hour)
	l := acquire(t, b, r)
	own := ownKey(t, c, r.Owner)
	bound := clientv3.LeaseID(get(t, c, own).Lease)
	if _, err := c.Delete(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Lost():
	case <-time.After(soon):
		t.Error("deleted before it was watched: Lost is not closed")
	}
	until(t, soon, "the lease of a key that is gone is revoked", func() bool { return isGone(t, c, bound) })
}

// If a renewal with another TTL finds the key deleted, it fails with ErrLost, and the old lease of the lock is revoked.
func TestChangeOfDeletedKeyLeavesNoLease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b := opened(t, s.URL())
	r := req("k", time.Hour)
	l := acquire(t, b, r)
	own := ownKey(t, c, r.Owner)
	bound := clientv3.LeaseID(get(t, c, own).Lease)
	if _, err := c.Delete(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(t.Context(), time.Minute); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renewal: %v", err)
	}
	until(t, soon, "the lease of a key that is gone is revoked", func() bool { return isGone(t, c, bound) })
}

// A lease whose key another client has deleted is not reused, because that client may be about to revoke it, as Break
// does.
func TestLeaseOfDeletedKeyIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	remove := func(own string) (bound clientv3.LeaseID) {
		bound = clientv3.LeaseID(get(t, c, own).Lease)
		if _, err := c.Delete(context.Background(), own); err != nil {
			t.Error(err)
		}
		return bound
	}
	var before atomic.Pointer[func()] // called instead of sending the next deletion, which gets no reply
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if deletes(req) {
			if f := before.Swap(nil); f != nil {
				(*f)()
				return status.Error(codes.Unavailable, "lost")
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	holder := acquire(t, b, req("k", time.Minute))
	r := waiting("k", placeTTL)
	ctx, cancel := context.WithCancel(t.Context())
	done := startAcquire(ctx, b, r)
	storetest.Queued(t, b, "k", 1)
	place := remove(ownKey(t, c, r.Owner))
	cancel()
	<-done
	until(t, soon, "the lease of a deleted place is revoked", func() bool { return isGone(t, c, place) })

	var bound clientv3.LeaseID
	deleted := func() { bound = remove(ownKey(t, c, holder.(*kit.Life).Owner())) }
	before.Store(&deleted)
	release(t, holder)
	until(t, soon, "the lease of a key that was deleted during its release is revoked",
		func() bool { return isGone(t, c, bound) })
}

func isGone(t testing.TB, c *clientv3.Client, id clientv3.LeaseID) bool {
	t.Helper()
	resp, err := c.TimeToLive(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return resp.TTL < 0
}

// If a holder's lease ends between the two requests of Inspect, the holder is reported without a TTL.
func TestInspectOfALeaseThatHasJustEnded(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if r, ok := req.(*pb.LeaseTimeToLiveRequest); ok {
			if _, err := c.Revoke(context.Background(), clientv3.LeaseID(r.ID)); err != nil {
				t.Error(err)
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	r := req("k", time.Minute)
	acquire(t, b, r)
	if h, err := b.Inspect(t.Context(), "k"); err != nil || h.Owner != r.Owner || h.TTL != 0 {
		t.Errorf("got %+v, %v", h, err)
	}
}

// If a key is deleted after its watch stream broke, the loss is still reported: the key is read when the watch begins
// again.
func TestGuardOutlivesCut(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.via(p.Addr))
	r := req("k", time.Hour)
	l := acquire(t, b, r)
	watched(t, b, l)
	stream := b.watches.stream()
	p.Cut()
	until(t, soon, "the stream has broken", func() bool { return b.watches.stream() != stream })
	if _, err := c.Delete(t.Context(), ownKey(t, c, r.Owner)); err != nil {
		t.Fatal(err)
	}
	storetest.Lost(t, l, 3*soon) // the watch begins again only when a new stream is open
}

// A lock that is not renewed ends on time, even while its client renews another lock and uses its pool.
func TestLockTTLIsItsOwn(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	const ttl = 2 * time.Second
	still := acquire(t, b, req("not renewed", ttl))
	end := time.Now().Add(ttl + b.Guarantees().MaxLate)
	// Meanwhile another lock with the same TTL is renewed, and the pool is in use.
	stop, renewing, renewals := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(renewing)
		l := acquire(t, b, req("renewed", ttl))
		for {
			select {
			case <-stop:
				_ = l.Release(context.Background())
				return
			case <-time.After(ttl / 4):
			}
			switch err := l.Renew(context.Background(), ttl); {
			case err == nil:
				renewals++
			case errors.Is(err, backend.ErrLost): // the machine stood still for the whole TTL
				l = acquire(t, b, req(backend.NewOwner(), ttl))
			case errors.Is(err, backend.ErrUnavailable): // or for a third of the TTL
			default:
				t.Error(err)
			}
			if c, err := b.Acquire(context.Background(), req("cycled", ttl)); err == nil {
				_ = c.Release(context.Background())
			}
		}
	}()
	time.Sleep(time.Until(end)) // sleeps: the TTL and MaxLate must pass
	l, err := other.Acquire(t.Context(), req("not renewed", ttl))
	if err != nil {
		t.Errorf("a lock that nobody renewed, TTL and MaxLate later: %v", err)
	} else {
		release(t, l)
	}
	close(stop)
	if <-renewing; renewals == 0 {
		t.Error("no other lock was renewed: the test proves nothing")
	}
	select {
	case <-still.Lost():
	default:
		t.Error("not lost")
	}
}
