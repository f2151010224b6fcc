package zookeeper

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// If a link hangs and more requests are sent than its buffers can hold, calls still return when their context ends.
// Nodes that are created later are deleted.
func TestCallsOnHungLink(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b, err := openNew(t, []string{p.Addr}, &Options{Chroot: s.chroot, SessionTimeout: 10 * time.Second,
		Timeout: 4 * soon, Dial: smallBuffers})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	key := strings.Repeat("k", 800)
	release(t, acquire(t, b, waiting(key, 5*time.Second)))
	release(t, acquire(t, b, waiting(key, 5*time.Second)))
	_, pass := p.hold(opCreate)
	t.Cleanup(pass)
	const callers = 300
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if _, err := b.Acquire(ctx, waiting(key, 5*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("acquire: %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(begun); took > soon {
		t.Errorf("calls with a context of 300ms took %v", took)
	}
	pass()
	release(t, acquire(t, b, waiting(key, 5*time.Second))) // after all of them
	until(t, 4*soon, "nothing is left behind", func() bool { return len(places(t, c, b, key)) == 0 })
}

// If a server hangs and its link can hold no more requests, the client still leaves the server before the library
// would.
func TestLeavesHungServerBehindFullLink(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	p := newProxy(t, s.Addr)
	b, err := openNew(t, []string{p.Addr}, &Options{Chroot: s.chroot, Dial: smallBuffers})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	key := strings.Repeat("k", 800)
	release(t, acquire(t, b, waiting(key, time.Minute)))
	sess := b.onlySession(t)
	sess.mu.Lock()
	w := sess.connection
	sess.mu.Unlock()
	_, pass := p.hold(opCreate)
	t.Cleanup(pass)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() { _, _ = b.Acquire(ctx, waiting(key, time.Minute)) })
	}
	wg.Wait()
	until(t, soon, "the connection is given up", func() bool {
		sess.mu.Lock()
		defer sess.mu.Unlock()
		return sess.connection != w || !sess.connected
	})
}

// smallBuffers dials a connection with a small send buffer, which is soon full if nobody reads.
func smallBuffers(network, address string, timeout time.Duration) (net.Conn, error) {
	const size = 16 << 10
	c, err := net.DialTimeout(network, address, timeout)
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(size)
	}
	return c, err
}
