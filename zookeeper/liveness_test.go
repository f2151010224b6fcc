package zookeeper

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

// A heartbeat is recorded before it is sent. Otherwise its reply could come first. The server would then look silent
// until the next heartbeat is answered, and a session with rare heartbeats would close a healthy connection.
func TestHeartbeatIsRecordedBeforeItsReply(t *testing.T) {
	t.Parallel()
	f := newFakeServer(4*time.Second, 40*time.Second)
	b := &Backend{
		servers: []string{"a:1"}, options: Options{Dial: f.dial, Timeout: soon}, root: allLocks, limits: defaultLimits(),
	}
	s := newSession(b, b.limits.longest)
	s.probing = true // sends no heartbeats by itself
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.end(errIdle)
		until(t, soon, "the library's client has ended", b.calls.Idle)
	}()
	if _, err := s.whenConnected(t.Context(), time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	heard := make(chan int32, 1)
	f.set(func(f *fakeServer) { f.heard = func(op int32) { heard <- op } })
	s.connection.mu.Lock() // nothing can be recorded
	go s.heartbeat()
	select {
	case op := <-heard:
		t.Errorf("%s was sent before it was recorded", opNames[op])
		s.connection.mu.Unlock()
	case <-time.After(100 * time.Millisecond):
		s.connection.mu.Unlock()
		if op := <-heard; op != opExists {
			t.Errorf("%s, want a heartbeat", opNames[op])
		}
	}
	f.set(func(f *fakeServer) { f.heard = nil })
}

// If a sign of life and a write are delayed together, the server may forward the write at once, and be cut off before
// it reports the sign of life to the leader. So the write proves nothing about a sign of life that had not been answered
// a hop before, however early it was sent.
func TestDelayedSignOfLifeIsNoProof(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hop, timeout, delay = time.Second, 10 * time.Second, 3 * time.Second
		start := time.Now()
		c := &contact{hop: hop}
		c.connected(start, timeout)
		c.committed(start)
		want := c.keptUntil()
		sign := start.Add(hop)
		write := sign.Add(hop) // a hop after the sign of life, and on its way together with it
		time.Sleep(time.Until(sign.Add(delay))) // sleeps: the delay of the sign of life
		c.answered(sign)
		c.committed(write)
		if got := c.keptUntil(); !got.Equal(want) {
			t.Errorf("kept for %v longer because of a write that proves nothing", got.Sub(want))
		}
		end := backend.Deadline(sign, timeout)
		at, ok := c.writeTime(end)
		if left := time.Until(at); !ok || left != hop {
			t.Errorf("another write would prove it in %v, %v, want a hop after the answer", left, ok)
		}
		c.committed(at)
		if got := c.keptUntil(); !got.Equal(end) {
			t.Errorf("kept until %v, want %v", got.Sub(start), end.Sub(start))
		}
	})
}
