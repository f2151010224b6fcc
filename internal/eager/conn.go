//go:build unix

package eager

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

func wrap(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok || alone() {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	e := &conn{Conn: c, raw: raw, most: mostTime}
	e.poll = e.look
	return e
}

type conn struct {
	net.Conn
	raw   syscall.RawConn
	most  time.Duration
	asked atomic.Bool // c was written to since the latest Read began

	// The fields below belong to the goroutine that has set looking.
	pace pace
	into []byte
	n    int
	err  error
	poll func(fd uintptr) bool // the method value of look, created once
}

// SyscallConn implements [syscall.Conn].
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	if len(p) > 0 && c.asked.Swap(false) && !alone() && looking.CompareAndSwap(false, true) {
		n, err, done := c.fetch(p)
		looking.Store(false)
		if done {
			return n, err
		}
	}
	return c.Conn.Read(p)
}

// fetch polls for a reply for a moment.
func (c *conn) fetch(p []byte) (n int, err error, done bool) {
	if !c.pace.ready() {
		return 0, nil, false
	}
	c.into = p
	defer func() { c.into = nil }()
	for i, end := 1, time.Now().Add(c.most); ; i++ {
		if err := c.raw.Read(c.poll); err != nil { // c is closed, or its deadline has passed
			return 0, nil, false
		}
		switch {
		case c.n > 0:
			c.pace.soon()
			return c.n, nil, true
		case c.err == nil:
			return 0, io.EOF, true
		case c.err != syscall.EAGAIN && c.err != syscall.EINTR:
			return 0, &net.OpError{
				Op: "read", Net: c.RemoteAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(),
				Err: os.NewSyscallError("read", c.err),
			}, true
		}
		if !time.Now().Before(end) {
			c.pace.late()
			return 0, nil, false
		}
		if i%politeness == 0 {
			runtime.Gosched()
		}
	}
}

// look reads the available data. It returns true, so that the RawConn never waits for more.
func (c *conn) look(fd uintptr) bool {
	c.n, c.err = syscall.Read(int(fd), c.into)
	return true
}
