package redis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/internal/storetest"
)

// A lone request on a connection that hangs ends soon after its caller's context, and holds up nobody meanwhile.
func TestLoneRequestHangs(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr)+"?timeout=20s") // which nothing here waits for
	release(t, acquire(t, b, req("warm", time.Minute)))
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := soloRequests(b)
	done := startAcquire(ctx, b, req("stuck", time.Minute))
	until(t, soon, "the request is alone, and on its way", func() bool { return soloRequests(b) == n+1 && p.Taken() })
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	begun := time.Now()
	for i := range 5 {
		release(t, acquire(t, b, req(fmt.Sprint("k", i), time.Minute)))
	}
	if took := time.Since(begun); took > soon {
		t.Errorf("5 cycles beside a lone request that hangs took %v", took)
	}
	cancel()
	begun = time.Now()
	if o := <-done; !errors.Is(o.Err, context.Canceled) {
		t.Errorf("the request that hung: %v", o.Err)
	}
	if took := time.Since(begun); took > soon {
		t.Errorf("it ended %v after its context", took)
	}
	release(t, acquire(t, b, req("stuck", time.Minute)))
}

// The end of a context that comes as its request ends does not end the next one.
func TestLateInterrupt(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	release(t, acquire(t, b, req("warm", time.Minute)))
	solo := b.lanes.Solo
	n, conn := solo.Latest()
	answer := make(chan struct{})
	p.Set(func(p *storetest.Proxy) { p.Replies = func([]byte) bool { <-answer; return true } })
	done := startAcquire(context.Background(), b, req("k", time.Minute))
	until(t, soon, "the next request is under way", func() bool {
		return soloRequests(b) == n+1 && s.raw(t).Exists(context.Background(), b.naming.lock("k")).Val() == 1
	})
	solo.Interrupt(n)
	close(answer)
	o := <-done
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	release(t, o.Lease)
	if _, now := solo.Latest(); now != conn {
		t.Error("the next request's connection was broken")
	}
}

// A server that restarts while nothing is under way is not noticed.
func TestLoneConnectionBreaksAtRest(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	release(t, acquire(t, b, req("k", time.Minute)))
	p.Cut()
	l := acquire(t, b, req("k", time.Minute))
	if l.Token() == 0 {
		t.Error("no token")
	}
	if b.lanes.Shuns() {
		t.Error("the request went out on the broken connection")
	}
	release(t, l)
}

// soloRequests is how many requests have gone alone.
func soloRequests(b *Backend) uint64 {
	n, _ := b.lanes.Solo.Latest()
	return n
}
