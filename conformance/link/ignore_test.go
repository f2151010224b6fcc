package link

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// While the link ignores dials, they get no reply, and its connections are broken. After Heal, dials work again, also a
// dial that began before.
func TestIgnore(t *testing.T) {
	e := newEcho(t)
	l := newLink(t, e.addr)
	c := dial(t, l.Addrs()[0])
	c.ping()
	for range 3 {
		l.Ignore()
		c.ended()
		if d, err := net.DialTimeout("tcp", l.Addrs()[0], calm); err == nil {
			if runtime.GOOS == "linux" {
				t.Fatal("a dial was answered")
			}
			(&client{t, d}).silent()
			d.Close()
		} else if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
			t.Fatalf("a dial that nobody answers: %v, want a timeout", err)
		}
		waiting := make(chan *client, 1)
		go func() {
			d, err := net.DialTimeout("tcp", l.Addrs()[0], soon)
			if err != nil {
				t.Errorf("a dial that waits for an answer: %v", err)
			}
			waiting <- &client{t, d}
		}()
		time.Sleep(calm) // sleeps: the dial must begin, which nothing shows
		l.Heal()
		if d := <-waiting; d.Conn != nil {
			d.ping()
			d.Close()
		}
		c = dial(t, l.Addrs()[0])
		c.ping()
	}
	l.Ignore() // Close ends the fault
}

// Cut also breaks a connection that the link has accepted while it still dials the server.
func TestCutWhileDialing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel answers dials that the link ignores")
	}
	upstream := newLink(t, newEcho(t).addr)
	upstream.Ignore()
	l := newLink(t, upstream.Addrs()[0])
	c := dial(t, l.Addrs()[0])
	for end := time.Now().Add(soon); l.Connections() == 0; time.Sleep(time.Millisecond) { // sleeps: polls
		if time.Now().After(end) {
			t.Fatal("the link does not count the connection")
		}
	}
	l.Cut()
	c.ended()
	upstream.Heal()
	dial(t, l.Addrs()[0]).ping()
}
