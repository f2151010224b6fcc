package link

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/conformance"
)

const (
	toStore   = conformance.ToStore
	fromStore = conformance.FromStore

	soon = 10 * time.Second       // time limit of an event that must happen
	calm = 100 * time.Millisecond // how long to wait for an event that must not happen
)

// An echo is a server that returns and records what it receives.
type echo struct {
	addr string

	mu  sync.Mutex
	got bytes.Buffer
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { e.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return e
}

func (e *echo) serve(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.got.Write(buf[:n])
		e.mu.Unlock()
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// received waits until the server has received exactly want, and nothing more for a while.
func (e *echo) received(t *testing.T, want string) {
	t.Helper()
	got := func() string {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.got.String()
	}
	for end := time.Now().Add(soon); len(got()) < len(want) && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	time.Sleep(calm) // sleeps: more than want may arrive
	if g := got(); g != want {
		t.Fatalf("the server got %q, want %q", g, want)
	}
}

func newLink(t *testing.T, upstreams ...string) *Link {
	t.Helper()
	l, err := New(upstreams...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

type client struct {
	*testing.T
	net.Conn
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{t, c}
}

func (c *client) send(s string) {
	c.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		c.Fatalf("send %q: %v", s, err)
	}
}

// get reads as many bytes as want has, and fails unless they are want.
func (c *client) get(want string) {
	c.Helper()
	c.SetReadDeadline(time.Now().Add(soon))
	buf := make([]byte, len(want))
	n, err := io.ReadFull(c, buf)
	if string(buf[:n]) != want {
		c.Fatalf("got %q (%v), want %q", buf[:n], err, want)
	}
}

// ping proves that the connection works both ways.
func (c *client) ping() {
	c.Helper()
	c.send("ping")
	c.get("ping")
}

// ended waits for the end of the connection. It fails if data arrives first.
func (c *client) ended() {
	c.Helper()
	c.SetReadDeadline(time.Now().Add(soon))
	n, err := c.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); n > 0 || err == nil || ok && ne.Timeout() {
		c.Fatalf("read %d bytes and the error %v, want the end of the connection", n, err)
	}
}

// silent proves that nothing arrives and that the connection stays open.
func (c *client) silent() {
	c.Helper()
	c.SetReadDeadline(time.Now().Add(calm))
	n, err := c.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); n > 0 || !ok || !ne.Timeout() {
		c.Fatalf("read %d bytes and the error %v, want silence", n, err)
	}
}

// arrived waits until n bytes have arrived at the link.
func arrived(t *testing.T, l *Link, d conformance.Direction, n int64) {
	t.Helper()
	for end := time.Now().Add(soon); l.Arrived(d) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v: %d bytes arrived, want %d", d, l.Arrived(d), n)
		}
	}
}

func happens(t *testing.T, what <-chan struct{}) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(soon):
		t.Fatal("it does not happen")
	}
}

func TestPassesAndCounts(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c, d := dial(t, l.Addrs()[0]), dial(t, l.Addrs()[0])
	c.ping()
	d.ping()
	for _, way := range []conformance.Direction{toStore, fromStore} {
		if p, a := l.Passed(way), l.Arrived(way); p != 8 || a != 8 {
			t.Errorf("%s: %d bytes passed, %d came, want 8", way, p, a)
		}
	}
	big := string(bytes.Repeat([]byte("0123456789"), 50_000))
	go c.Write([]byte(big))
	c.get(big)
}

func TestAddsLittle(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	best := soon
	for range 200 {
		begun := time.Now()
		c.ping()
		best = min(best, time.Since(begun))
	}
	t.Logf("%v there and back", best)
	if best > 2*time.Millisecond { // Nagle's algorithm or a sleep would cost tens of milliseconds
		t.Errorf("an exchange takes %v at best", best)
	}
}

func TestCut(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr, e.addr)
	c, d := dial(t, l.Addrs()[0]), dial(t, l.Addrs()[1])
	c.ping()
	d.ping()
	l.Cut()
	c.ended()
	d.ended()
	dial(t, l.Addrs()[0]).ping()
	dial(t, l.Addrs()[1]).ping()
}

func TestCutAfterToStore(t *testing.T) {
	for n, want := range map[int64]string{0: "", 1: "a", 3: "abc", 4: "abcd", 6: "abcdef"} {
		e := newEcho(t)
		l := newLink(t, e.addr)
		c, d := dial(t, l.Addrs()[0]), dial(t, l.Addrs()[0])
		c.ping() // so that both connections exist
		d.ping()
		happened := l.CutAfter(toStore, n)
		c.send("abcd")
		if n > 4 {
			c.get("abcd")
			d.send("efgh")
		}
		happens(t, happened)
		e.received(t, "pingping"+want)
		d.ended()
		dial(t, l.Addrs()[0]).ping()
	}
}

func TestCutAfterFromStore(t *testing.T) {
	for n, want := range map[int64]string{0: "", 1: "a", 3: "abc", 4: "abcd"} {
		e := newEcho(t)
		l := newLink(t, e.addr)
		c, d := dial(t, l.Addrs()[0]), dial(t, l.Addrs()[0])
		c.ping()
		d.ping()
		happened := l.CutAfter(fromStore, n)
		c.send("abcd")
		c.get(want)
		c.ended()
		d.ended()
		happens(t, happened)
		e.received(t, "pingpingabcd")
		if p, a := l.Passed(fromStore)-8, l.Arrived(fromStore)-8; p != n || a != 4 {
			t.Errorf("%d bytes passed and %d came, want %d and 4", p, a, n)
		}
		dial(t, l.Addrs()[0]).ping()
	}
}

func TestCutAfterCountsAllConnections(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	const n = 1000
	var clients []*client
	for range 8 {
		c := dial(t, l.Addrs()[0])
		c.ping()
		clients = append(clients, c)
	}
	before := l.Passed(toStore)
	happened := l.CutAfter(toStore, n)
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for i := 0; i < n; i += 7 {
				if _, err := c.Write([]byte("1234567")); err != nil {
					return
				}
			}
		})
	}
	happens(t, happened)
	if p := l.Passed(toStore) - before; p != n {
		t.Errorf("%d bytes passed, want %d", p, n)
	}
	l.Close()
	wg.Wait()
}

func TestHealCallsCutOff(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	happened := l.CutAfter(toStore, 2)
	l.Heal()
	c.ping()
	select {
	case <-happened:
		t.Error("the cut that was called off has happened")
	default:
	}
}

// If Heal cancels a cut while the last bytes before it are being written, the bytes behind it still pass.
func TestHealLosesNothingBehindCut(t *testing.T) {
	l := newLink(t)
	w := &way{conn: &conn{link: l}, direction: toStore, arrived: make(chan struct{}, 1)}
	l.CutAfter(toStore, 2)
	w.receive([]byte("hello"))
	w.stage()
	first := string(w.staged)
	w.staged = nil
	l.Heal()
	w.reached()
	w.stage()
	if rest := string(w.staged); first != "he" || rest != "llo" {
		t.Errorf("%q passes before the cut and %q when it is called off, want \"he\" and \"llo\"", first, rest)
	}
}

func TestRefuse(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	for range 3 {
		l.Refuse()
		c.ended()
		refusesDials(t, l)
		l.Refuse()
		refusesDials(t, l)
		l.Heal()
		c = dial(t, l.Addrs()[0])
		c.ping()
	}
	e.received(t, "pingpingpingping")
	l.Ignore()
	l.Refuse()
	refusesDials(t, l)
	l.Ignore() // listens again, so that the kernel can ignore dials
	l.Heal()
	dial(t, l.Addrs()[0]).ping()
	l.Refuse()
	l.Close()
	l.Heal()
	refusesDials(t, l)
}

// refusesDials fails unless the kernel refuses a dial of l. On Windows, it accepts any error.
func refusesDials(t *testing.T, l *Link) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addrs()[0])
	if err == nil {
		c.Close()
	}
	if err == nil || runtime.GOOS != "windows" && !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("a dial that is refused: %v, want ECONNREFUSED", err)
	}
}

func TestHold(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	l.Hold(toStore)
	c.send("one")
	c.send("two")
	arrived(t, l, toStore, 10)
	c.silent()
	e.received(t, "ping")
	if a, p := l.Arrived(toStore), l.Passed(toStore); a != 10 || p != 4 {
		t.Errorf("%d bytes came and %d passed, want 10 and 4", a, p)
	}
	l.Heal()
	c.get("onetwo")

	l.Hold(fromStore)
	c.send("three")
	e.received(t, "pingonetwothree")
	arrived(t, l, fromStore, 15)
	c.silent()
	l.Heal()
	c.get("three")
}

func TestHeldConnectionEnds(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	l.Hold(toStore)
	c.send("held")
	c.Close()
	l.Heal()
	e.received(t, "pingheld")

	d := dial(t, l.Addrs()[0])
	l.Hold(toStore)
	l.Hold(fromStore)
	d.send("cut")
	d.silent()
	l.Cut()
	d.ended()
	l.Heal()
	e.received(t, "pingheld")
}

func TestDrop(t *testing.T) {
	for _, way := range []conformance.Direction{toStore, fromStore} {
		e := newEcho(t)
		l := newLink(t, e.addr)
		c, idle := dial(t, l.Addrs()[0]), dial(t, l.Addrs()[0])
		c.ping()
		idle.ping()
		l.Drop(way)
		c.send("lost")
		arrived(t, l, way, 12)
		c.silent()
		d := dial(t, l.Addrs()[0])
		d.send("lost")
		arrived(t, l, way, 16)
		d.silent()
		want := "pingping"
		if way == fromStore {
			want += "lostlost"
		}
		e.received(t, want)
		l.Heal()
		c.ended()
		d.ended()
		idle.ping()
	}
}

func TestDelay(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	const by = 50 * time.Millisecond
	for _, way := range []conformance.Direction{toStore, fromStore} {
		l.Delay(way, by)
		best := soon // a busy machine may be slow, but not every time
		for range 5 {
			begun := time.Now()
			for range 10 { // sent at once: each is delayed by the same time, not by the sum
				c.send("ping")
			}
			c.get("ping")
			if took := time.Since(begun); took < by {
				t.Errorf("%s: it took %v, want %v", way, took, by)
			}
			c.get("pingpingpingpingpingpingpingpingping")
			if best = min(best, time.Since(begun)); best <= 9*by {
				break
			}
		}
		if best > 9*by {
			t.Errorf("%s: ten took %v at best, want about %v", way, best, by)
		}
		l.Heal()
	}
	l.Delay(toStore, time.Hour)
	c.send("ping")
	c.silent()
	l.Heal()
	c.get("ping")
}

func TestClose(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	l.Hold(toStore)
	l.Drop(fromStore)
	c.send("held")
	l.Close()
	c.ended()
	if c, err := net.Dial("tcp", l.Addrs()[0]); err == nil {
		c.Close()
		t.Error("a closed link accepts a connection")
	}
	l.Close()
}

// If the store is stopped, the link accepts a connection and breaks it at once.
func TestUpstreamDown(t *testing.T) {
	const addr = "127.0.0.1:1" // not a port that was free a moment ago: another test may have bound it by now
	dial(t, newLink(t, addr).Addrs()[0]).ended()
}

// If the store ends a connection while the client writes to it, the link leaves no goroutine. goleak checks that.
func TestServerEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("bye"))
			c.Close()
		}
	}()
	l := newLink(t, ln.Addr().String())
	for range 20 {
		c := dial(t, l.Addrs()[0])
		c.get("bye")
		for range 100 {
			if _, err := c.Write([]byte("more")); err != nil {
				break
			}
		}
		c.ended()
	}
}

func TestBadUpstreamAddress(t *testing.T) {
	l := newLink(t, "no such host.:1")
	dial(t, l.Addrs()[0]).ended()
}

// A receiver that reads once may read only a part of delayed data.
func TestDelayedDataComesInParts(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	l.Delay(fromStore, 20*time.Millisecond)
	const attempts = 10 // a busy machine may be slow, but not every time
	for range attempts {
		c.send("ping")
		c.SetReadDeadline(time.Now().Add(soon))
		buf := make([]byte, len("ping"))
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if n < len(buf) {
			c.get("ping"[n:])
			return
		}
	}
	t.Errorf("in %d attempts, all data came at once", attempts)
}
