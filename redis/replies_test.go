package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
)

// If the reply to an acquire is lost, the retry returns the lease of the first request, never ErrHeld. If the reply to
// a renewal or release is lost, the call still succeeds, and no loss is reported.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr)+"?timeout=20s") // a busy machine may delay a reply by seconds
	admin := s.raw(t)
	for range 10 {
		r := req("k", time.Minute)
		release(t, acquire(t, b, req("warm", time.Minute)))
		lost := p.LoseReply()
		l := acquire(t, b, r)
		<-lost
		h, err := b.Inspect(context.Background(), "k")
		if err != nil || h.Owner != r.Owner || h.Token != l.Token() {
			t.Fatalf("after a lost reply the server has %+v, %v; the lease is of %s with %d", h, err, r.Owner, l.Token())
		}
		lost = p.LoseReply()
		if err := l.Renew(context.Background(), 2*time.Minute); err != nil {
			t.Fatalf("renew whose reply was lost: %v", err)
		}
		<-lost
		if ttl := admin.PTTL(context.Background(), b.naming.lock("k")).Val(); ttl < 110*time.Second {
			t.Fatalf("after a renewal to 2m the key has %v left", ttl)
		}
		lost = p.LoseReply()
		release(t, l)
		<-lost
		select {
		case <-l.Lost():
			t.Fatal("a released lease was reported lost")
		default:
		}
		if n := admin.Exists(context.Background(), b.naming.lock("k")).Val(); n != 0 {
			t.Fatal("the key is still there after its release")
		}
	}
}

// If the reply to a release is lost, the release still succeeds on a caller's client, and no loss is reported. The
// server keeps no record of releases.
func TestLostReplyOfRelease(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	admin := s.raw(t)
	theirs := redis.NewClient(&redis.Options{DB: s.Number, Addr: p.Addr}) // default options
	defer theirs.Close()
	b, err := onClient(theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	for range 10 {
		r := req("k", time.Minute)
		release(t, acquire(t, b, req("warm", time.Minute)))
		l := acquire(t, b, r)
		lost := p.LoseReply()
		release(t, l)
		<-lost
		select {
		case <-l.Lost():
			t.Fatal("a released lease was reported lost")
		default:
		}
	}
	gone := acquire(t, b, req("k", time.Minute))
	s.evict(t, "k")
	if err := gone.Release(ctx); !errors.Is(err, backend.ErrLost) {
		t.Fatalf("release of an evicted lease: %v, want ErrLost", err)
	}
	for i := range 100 {
		release(t, acquire(t, b, req(fmt.Sprint("k", i), time.Minute)))
	}
	for _, key := range admin.Keys(ctx, "*").Val() {
		if !strings.HasSuffix(key, "}fence") {
			t.Errorf("%q was left behind", key)
		}
	}
}

// If a context ends between the server's grant and its reply, no key remains, whether the Backend or the caller created
// the client.
func TestDeadlineBetweenGrantAndReply(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	admin := s.raw(t)
	p := storetest.NewProxy(t, s.Addr)
	theirs := redis.NewClient(&redis.Options{DB: s.Number, Addr: p.Addr}) // by default, it ignores deadlines
	defer theirs.Close()
	b, err := onClient(theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for name, b := range map[string]*Backend{"ours": opened(t, s.at(p.Addr)), "theirs": b} {
		t.Run(name, func(t *testing.T) {
			for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
				key := name + end.Error()
				const delay = 1500 * time.Millisecond
				took := leastOf(func(int) (took time.Duration, enough bool) {
					release(t, acquire(t, b, req("warm", time.Minute)))
					p.Set(func(p *storetest.Proxy) { p.Delay = delay })
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
					if end == context.Canceled {
						ctx, cancel = context.WithCancel(context.Background())
						time.AfterFunc(100*time.Millisecond, cancel)
					}
					begun := time.Now()
					l, err := b.Acquire(ctx, req(key, time.Minute))
					took = time.Since(begun)
					cancel()
					p.Set(func(p *storetest.Proxy) { p.Delay = 0 })
					if l != nil || !errors.Is(err, end) {
						t.Fatalf("acquire: lease %v, error %v, want %v", l != nil, err, end)
					}
					until(t, soon, "the key is gone", func() bool {
						return admin.Exists(context.Background(), b.naming.lock(key)).Val() == 0
					})
					return took, took <= delay-100*time.Millisecond
				})
				if took > delay-100*time.Millisecond {
					t.Errorf("acquire returned after %v, its context ended after 100ms and the answer came after %v",
						took, delay)
				}
			}
		})
	}
}

// On a caller's client that ignores deadlines, all calls return in time even if the server never replies. The remaining
// goroutines end by the client's own timeouts.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	const readTimeout = 4 * time.Second
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	client := redis.NewClient(&redis.Options{DB: s.Number, Addr: p.Addr, ReadTimeout: readTimeout, MaxRetries: -1})
	defer client.Close()
	b, err := onClient(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := acquire(t, b, req("held", 2*time.Second))
	b.options.Timeout = 300 * time.Millisecond
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	within := func(what string, limit time.Duration, f func() error) error {
		t.Helper()
		begun := time.Now()
		err := f()
		if took := time.Since(begun); took > limit+3*time.Second {
			t.Errorf("%s returned after %v, want within %v", what, took, limit)
		}
		if err == nil {
			t.Errorf("%s: no error", what)
		}
		return err
	}
	bg := context.Background()
	err = within("acquire", 300*time.Millisecond,
		func() error { _, err := b.Acquire(bg, req("k", time.Minute)); return err })
	if !errors.Is(err, exchange.ErrNoAnswer) || kit.IsContextError(err) {
		t.Errorf("acquire: %v, want %v, and no context's error", err, exchange.ErrNoAnswer)
	}
	within("inspect", 300*time.Millisecond, func() error { _, err := b.Inspect(bg, "k"); return err })
	within("renew", 300*time.Millisecond, func() error { return l.Renew(bg, time.Second) })
	ctx, cancel := context.WithCancel(bg)
	time.AfterFunc(50*time.Millisecond, cancel)
	err = within("cancelled acquire", 50*time.Millisecond+replyGrace, func() error {
		_, err := b.Acquire(ctx, req("k", time.Minute))
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled acquire: %v", err)
	}
	select {
	case <-l.Lost():
	case <-time.After(2*time.Second + soon):
		t.Error("the lease is not lost at its deadline")
	}
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	until(t, readTimeout+soon, "no request is under way", b.leases.Idle)
}

// An abandoned request that arrives late cannot undo a later request.
func TestLateRequests(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	admin := s.raw(t)
	ctx := context.Background()
	r := req("k", 10*time.Second)
	l := acquire(t, b, r)
	n := b.naming.names("k")
	eval := func(sc exchange.Script, keys []string, args ...any) any {
		r := exchange.Send(ctx, admin, []exchange.Request{sc.Request(keys, args...)})[0]
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return r.V
	}
	left := func() time.Duration { return admin.PTTL(ctx, n.lock).Val() }
	for _, ttl := range []time.Duration{soon, time.Minute} {
		if err := l.Renew(ctx, ttl); err != nil {
			t.Fatal(err)
		}
	}
	eval(acquireScript, []string{n.lock, n.queue, n.fence}, r.Owner, 1000, b.channel, "0")
	if got := left(); got < 50*time.Second {
		t.Errorf("a late acquire cut the lease down to %v", got)
	}
	if v := eval(renewScript, []string{n.lock}, lockValue(l.Token()-1, r.Owner), 1000).([]any)[0]; v != renewLost ||
		left() < 50*time.Second {
		t.Errorf("a renewal with an old token: reply %v, lease cut down to %v", v, left())
	}
	release(t, l)
	if v := eval(renewScript, []string{n.lock}, lockValue(l.Token(), r.Owner), 1000).([]any)[0]; v != renewLost ||
		left() > 0 {
		t.Errorf("a renewal after the release: answer %v, %v left", v, left())
	}
	if err := l.Renew(ctx, time.Minute); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renew after release: %v", err)
	}
}

// If a waiter's request hangs until it times out, a later request gets the key. After the release no key remains, even
// once the request that hung has ended.
func TestRepeatedAfterRelease(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	admin := s.raw(t)
	holder := opened(t, s.URL)
	var w wire
	theirs := redis.NewClient(&redis.Options{DB: s.Number, Addr: s.Addr, Dialer: w.dial,
		ReadTimeout: 2500 * time.Millisecond, MaxRetries: 1})
	defer theirs.Close()
	var requests inFlight
	theirs.AddHook(&requests)
	b, err := onClient(theirs, &Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	release(t, acquire(t, b, req("warm", time.Minute)))
	l := acquire(t, holder, req("k", time.Hour))
	done := queueUp(t, b, waiting("k", time.Hour), 1)
	w.set(func() { w.hang = true }) // the request that the waiter sends when it is notified
	release(t, l)
	release(t, granted(t, done, soon).Lease)
	until(t, 2*soon, "the request that hung has ended", requests.none)
	until(t, soon, "the key is free",
		func() bool { return admin.Exists(context.Background(), b.naming.lock("k")).Val() == 0 })
}

// A renewal that races a release never keeps or recreates the key.
func TestRenewRacesRelease(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	admin := s.raw(t)
	rounds := 10000
	if testing.Short() {
		rounds = 500
	}
	const workers = 8
	done := make(chan error, workers)
	for w := range workers {
		go func() {
			ctx := context.Background()
			key := string(rune('a' + w))
			for range rounds / workers {
				l, err := b.Acquire(ctx, req(key, time.Minute))
				if err != nil {
					done <- err
					return
				}
				renewed := make(chan struct{})
				go func() { _ = l.Renew(ctx, time.Minute); close(renewed) }()
				if err := l.Release(ctx); err != nil {
					done <- err
					return
				}
				if admin.Exists(ctx, b.naming.lock(key)).Val() != 0 {
					done <- errors.New("the key is there after its release")
					return
				}
				<-renewed
				if admin.Exists(ctx, b.naming.lock(key)).Val() != 0 {
					done <- errors.New("a renewal has brought the key back")
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// If a waiter's request hangs until it times out, and the lease that a later request gets is lost, another process may
// have resumed that lease. So the store removes what the request that hung may have acquired only if the holder has
// called Release.
func TestRepeatedAfterLoss(t *testing.T) {
	t.Parallel()
	t.Run("released", func(t *testing.T) { t.Parallel(); repeatedAfterLoss(t, true) })
	t.Run("resumed", func(t *testing.T) { t.Parallel(); repeatedAfterLoss(t, false) })
}

func repeatedAfterLoss(t *testing.T, released bool) {
	const hangs = 4 * time.Second
	s := ownDatabase(t)
	admin := s.raw(t)
	ctx := context.Background()
	holder := opened(t, s.URL)
	var w wire
	theirs := redis.NewClient(&redis.Options{DB: s.Number, Addr: s.Addr, Dialer: w.dial,
		ReadTimeout: hangs, MaxRetries: -1})
	defer theirs.Close()
	var requests inFlight
	theirs.AddHook(&requests)
	b, err := onClient(theirs, &Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	release(t, acquire(t, b, req("warm", time.Minute)))
	l := acquire(t, holder, req("k", time.Hour))
	r := waiting("k", time.Second)
	done := queueUp(t, b, r, 1)
	w.set(func() { w.hang = true }) // the request that the waiter sends when it is notified
	begun := time.Now()
	release(t, l)
	next := granted(t, done, soon).Lease
	<-next.Lost()
	if released {
		if err := next.Release(ctx); !errors.Is(err, backend.ErrLost) {
			t.Errorf("release of the lost lease: %v", err)
		}
	}
	if requests.none() {
		t.Skipf("%v after it was sent, the request that hung has ended", time.Since(begun))
	}
	lock := b.naming.lock("k")
	admin.Set(ctx, lock, lockValue(next.Token(), r.Owner), time.Hour) // as the late request or another process would
	until(t, hangs+soon, "the client has ended the request", requests.none)
	gone := func() bool { return admin.Exists(ctx, lock).Val() == 0 }
	if released {
		until(t, soon, "the owner's key is removed", gone)
		return
	}
	time.Sleep(soon / 10) // sleeps: the store would remove the key at once
	if gone() {
		t.Error("once the request has ended, the key of the owner is removed")
	}
}

// If the reply to the request of Break that ends the lease is lost, the repeated request finds nothing, and Break still
// succeeds.
func TestLostReplyOfBreak(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	for _, r := range []backend.Request{req("k", time.Minute), shared(req("k", time.Minute))} {
		l := acquire(t, b, r)
		var replies atomic.Int32 // on all connections
		p.Set(func(p *storetest.Proxy) {
			p.Replies = func([]byte) bool {
				n := replies.Add(1)
				if n == 2 { // the first reads the token
					p.Cut()
				}
				return n != 2
			}
		})
		if err := b.Break(context.Background(), r.Key, r.Owner); err != nil {
			t.Errorf("break whose reply was lost: %v", err)
		}
		if n := replies.Load(); n < 3 {
			t.Errorf("%d replies: none was lost, the test proves nothing", n)
		}
		p.Set(func(p *storetest.Proxy) { p.Replies = nil })
		if err := l.Release(context.Background()); !errors.Is(err, backend.ErrLost) {
			t.Errorf("release after the break: %v", err)
		}
	}
}
