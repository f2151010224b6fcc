//go:build unix

package eager

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A sleeper counts the calls of Read, in which the reader sleeps.
type sleeper struct {
	*net.TCPConn
	reads atomic.Int32
}

func (s *sleeper) Read(p []byte) (int, error) {
	s.reads.Add(1)
	return s.TCPConn.Read(p)
}

const long = time.Minute

// pair returns a connection that polls for up to most, the sleeper below it, and its peer.
func pair(t *testing.T, most time.Duration) (*conn, *sleeper, *net.TCPConn) {
	t.Helper()
	if alone() {
		t.Skip("one processor")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	below, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s := &sleeper{TCPConn: below.(*net.TCPConn)}
	c := New(s).(*conn)
	c.most = most
	t.Cleanup(func() {
		c.Close()
		peer.Close()
	})
	return c, s, peer.(*net.TCPConn)
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, 100)
	if n, err := c.Read(b); string(b[:n]) != want || err != nil {
		t.Fatalf("Read = %q, %v, want %q", b[:n], err, want)
	}
}

// begin starts a Read in the background.
func begin(c net.Conn) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 100))
		done <- err
	}()
	return done
}

// reading starts a Read in the background, and returns when the Read polls.
func reading(t *testing.T, c net.Conn) <-chan error {
	t.Helper()
	done := begin(c)
	for begun := time.Now(); !looking.Load(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("nothing is looked for")
		}
	}
	return done
}

func result(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("a Read goes on")
		return nil
	}
}

func TestAnswerIsLookedFor(t *testing.T) {
	c, below, peer := pair(t, long)
	for range 100 {
		write(t, c, "question")
		done := reading(t, c)
		read(t, peer, "question")
		write(t, peer, "answer")
		if err := result(t, done); err != nil {
			t.Fatal(err)
		}
	}
	if n := below.reads.Load(); n != 0 {
		t.Errorf("%d of 100 answers were waited for asleep", n)
	}
}

func TestUnaskedIsWaitedForAsleep(t *testing.T) {
	c, below, peer := pair(t, long)
	for i := range int32(3) {
		write(t, peer, "news")
		read(t, c, "news")
		if n := below.reads.Load(); n != i+1 {
			t.Errorf("Read was called %d times for %d messages", n, i+1)
		}
	}
}

func TestLateAnswerIsWaitedForAsleep(t *testing.T) {
	c, below, peer := pair(t, time.Millisecond)
	write(t, c, "question")
	go func() { // when c no longer polls
		end := time.Now().Add(10 * time.Second)
		for ; below.reads.Load() == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		_, _ = io.WriteString(peer, "answer")
	}()
	read(t, c, "answer")
	if n := below.reads.Load(); n != 1 || c.pace.skip != 1 {
		t.Errorf("Read was called %d times, the next %d answers are waited for asleep; want 1, 1", n, c.pace.skip)
	}
}

func TestOneLooksAtATime(t *testing.T) {
	first, _, firstPeer := pair(t, long)
	write(t, first, "question")
	done := reading(t, first)
	second, below, secondPeer := pair(t, long)
	write(t, second, "question")
	write(t, secondPeer, "answer")
	read(t, second, "answer")
	if n := below.reads.Load(); n != 1 {
		t.Errorf("Read was called %d times while another connection's answer was looked for, want 1", n)
	}
	write(t, firstPeer, "answer")
	if err := result(t, done); err != nil {
		t.Error(err)
	}
}

func TestDeadlineWhileLooking(t *testing.T) {
	isDeadline := func(err error) {
		t.Helper()
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("Read: %v", err)
		}
	}
	c, _, _ := pair(t, long)
	write(t, c, "question")
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	isDeadline(result(t, begin(c))) // the deadline may have passed before the Read begins

	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	write(t, c, "question")
	done := reading(t, c)
	if err := c.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	isDeadline(result(t, done))
	if looking.Load() {
		t.Error("it is looked for what nobody reads")
	}
}

func TestCloseWhileLooking(t *testing.T) {
	c, _, _ := pair(t, long)
	write(t, c, "question")
	done := reading(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := result(t, done); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
}

func TestPeerGoesWhileLooking(t *testing.T) {
	for _, rude := range []bool{false, true} {
		c, _, peer := pair(t, long)
		write(t, c, "question")
		done := reading(t, c)
		read(t, peer, "question")
		want := io.EOF
		if rude {
			want = error(syscall.ECONNRESET)
			if err := peer.SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		peer.Close()
		if err := result(t, done); !errors.Is(err, want) {
			t.Errorf("Read: %v, want %v", err, want)
		}
	}
}

// With one processor, no connection polls, because the polling would delay the peer and other goroutines.
func TestOneProcessor(t *testing.T) {
	c, below, peer := pair(t, long)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	write(t, c, "question")
	write(t, peer, "answer")
	read(t, c, "answer")
	if n := below.reads.Load(); n != 1 {
		t.Errorf("Read was called %d times, want 1", n)
	}
	if New(below) != net.Conn(below) {
		t.Error("a connection was made eager")
	}
}

// New does not wrap a connection that is not a socket.
func TestNoSocket(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if New(a) != a {
		t.Error("a pipe was wrapped")
	}
}
