package zookeeper

import (
	"testing"
	"time"
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
