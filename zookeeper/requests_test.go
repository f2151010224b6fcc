package zookeeper

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/storetest"
)

// frames counts the requests that a Backend writes, by operation. It ignores heartbeats, which are reads of root.
type frames struct {
	root string
	mu   sync.Mutex
	n    map[int32]int
}

// Operations that only tests name.
const (
	opDelete    = 2
	opExists    = 3
	opGetData   = 4
	opMulti     = 14
	opContainer = 19
	opClose     = -11
	opPing      = 11
)

var opNames = map[int32]string{
	opCreate: "create", opDelete: "delete", opExists: "exists", opGetData: "getData", opChildren: "children",
	opMulti: "multi", opContainer: "createContainer", opClose: "close",
}

func (f *frames) observe(op int32, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op != opExists || framePath(body) != f.root {
		f.n[op]++
	}
}

// during returns the requests that were written while do ran.
func (f *frames) during(do func()) string {
	f.mu.Lock()
	f.n = make(map[int32]int)
	f.mu.Unlock()
	do()
	f.mu.Lock()
	defer f.mu.Unlock()
	text := ""
	for _, op := range []int32{
		opChildren, opExists, opGetData, opContainer, opCreate, opDelete, opMulti, opClose,
	} {
		if n := f.n[op]; n > 0 {
			text += fmt.Sprintf("%s %d ", opNames[op], n)
		}
	}
	return text
}

// countedTTL is the TTL of leases whose requests are counted, on a server like lasting. Their session is so much longer
// that no other request must prove it, even if the machine stands still for some seconds.
const countedTTL = 30 * time.Second

func counted(t *testing.T, s spot) (*Backend, *frames) {
	t.Helper()
	y := new(spy)
	b, err := openNew(t, []string{s.Addr}, &Options{Chroot: s.chroot, Timeout: 4 * soon, Dial: y.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &frames{root: b.root, n: make(map[int32]int)}
	observe := f.observe
	y.frame.Store(&observe)
	b.watchAfter = time.Hour // TestWatchCostsOneRead counts the read for a lease's watch
	return b, f
}

// A spy is a Dialer. Its connections report each frame before it is written, except the handshakes.
type spy struct {
	frame atomic.Pointer[func(op int32, body []byte)]
}

type spied struct {
	net.Conn
	spy   *spy
	begun bool
}

func (y *spy) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, timeout)
	return &spied{Conn: c, spy: y}, err
}

func (c *spied) Write(p []byte) (int, error) {
	const size, opAt, bodyAt = 4, 8, 12
	if f := c.spy.frame.Load(); f != nil && c.begun {
		for frames := p; len(frames) > 0; frames = frames[size+int(be.Uint32(frames)):] {
			(*f)(int32(be.Uint32(frames[opAt:])), frames[bodyAt:])
		}
	}
	c.begun = true
	return c.Conn.Write(p)
}

// Each operation writes only the requests that it needs. The read of the queue is sent right behind the create, so it
// costs no round trip of its own.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := alone(t)
	const ttl = countedTTL
	c := raw(t, s.Addr)
	b, f := counted(t, s)
	release(t, acquire(t, b, req("k", ttl))) // now the container and the session exist
	other := opened(t, s.url())
	var l backend.Lease
	want := map[string]string{}
	got := map[string]string{}
	step := func(what, wanted string, do func()) {
		want[what] = wanted
		got[what] = f.during(do)
	}
	step("try", "children 2 create 1 ", func() { l = acquire(t, b, req("k", ttl)) })
	step("refused", "children 1 ", func() { _, _ = b.Acquire(t.Context(), req("k", ttl)) })
	step("inspect", "children 1 getData 1 ", func() { _, _ = b.Inspect(t.Context(), "k") })
	step("renew", "multi 1 ", func() {
		if err := l.Renew(t.Context(), ttl); err != nil {
			t.Fatal(err)
		}
	})
	step("release", "delete 1 ", func() { release(t, l) })
	step("acquire again", "children 1 create 1 ", func() { l = acquire(t, b, waiting("k", ttl)) })
	release(t, l)
	release(t, acquire(t, other, req("k", ttl)))
	step("acquire after another client", "children 1 create 1 ", func() { l = acquire(t, b, waiting("k", ttl)) })
	release(t, l)
	step("acquire that may wait", "children 1 create 1 ", func() { l = acquire(t, b, waiting("k", ttl)) })
	release(t, l)
	step("new key", "children 2 createContainer 1 create 1 ", func() { l = acquire(t, b, req("new", ttl)) })
	release(t, l)

	var batch []backend.Renewal
	for i := range batchPaths {
		batch = append(batch, backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint("k", i), ttl)), TTL: ttl})
	}
	step("batch", "multi 1 ", func() {
		for _, err := range b.RenewBatch(t.Context(), batch) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})

	done := make(chan backend.Lease, 1)
	wait := func() {
		l = acquire(t, other, req("k", time.Minute))
		go func() {
			l, err := b.Acquire(context.Background(), waiting("k", ttl))
			if err != nil {
				t.Error(err)
			}
			done <- l
		}()
		until(t, soon, "the waiter watches", func() bool { _, w := counts(t, c, s.Addr, b, "k"); return w == 1 })
	}
	step("waiter until it waits", "children 1 getData 1 create 1 ", wait)
	step("hand-off soon after", "", func() { release(t, l); l = <-done })
	release(t, l)
	wait()
	time.Sleep(ttl/8 + 100*time.Millisecond) // sleeps: the create must not be recent any more
	step("hand-off", "multi 1 ", func() { release(t, l); l = <-done })
	release(t, l)
	for what := range want {
		if got[what] != want[what] {
			t.Errorf("%s: %s, want %s", what, got[what], want[what])
		}
		t.Logf("%s: %s", what, got[what])
	}
}

// Each operation takes as many round trips as the driver registers. The test delays replies, and divides the duration
// of the operation by the delay.
func TestRoundTrips(t *testing.T) {
	s := on(t, lasting)
	p := newProxy(t, s.Addr)
	const delay = 500 * time.Millisecond // everything else takes less
	b := opened(t, s.at(p.Addr))
	release(t, acquire(t, b, req("k", countedTTL)))
	p.set(func(p *proxy) { p.delay = delay })
	trips := func(do func()) string {
		begun := time.Now()
		do()
		return fmt.Sprint(int(time.Since(begun) / delay))
	}
	d, err := driver.Lookup(s.url())
	if err != nil {
		t.Fatal(err)
	}
	storetest.ThreeTries(t, func() error {
		var l backend.Lease
		got := driver.RoundTrips{
			Acquire: trips(func() { l = acquire(t, b, req("k", countedTTL)) }),
			Renew: trips(func() {
				if err := l.Renew(t.Context(), countedTTL); err != nil {
					t.Fatal(err)
				}
			}),
			Release: trips(func() { release(t, l) }),
		}
		if d.RoundTrips != got {
			return fmt.Errorf("round trips %+v, the driver registers %+v", got, d.RoundTrips)
		}
		return nil
	})
	p.set(func(p *proxy) { p.delay = 0 })
}
