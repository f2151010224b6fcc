package zookeeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

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
// it reports the sign of life to the leader. So the write proves nothing about a sign of life that was not answered a
// hop before, however early it was sent.
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
		write := sign.Add(hop)                  // a hop after the sign of life, and on its way together with it
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

// A client leaves a hung server as early for a long session as for a session of default servers, whatever it has done
// last.
func TestLeavesHungServerInTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ session, patience time.Duration }{
		{time.Second, 500 * time.Millisecond},
		{4 * time.Second, 4 * time.Second / 6},
		{20 * time.Second, 20 * time.Second / 6},
		{40 * time.Second, 4 * time.Second},
		{5 * time.Minute, 4 * time.Second},
		{time.Hour, 4 * time.Second},
	} {
		for _, busy := range []time.Duration{time.Second, 9750 * time.Millisecond, 10 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(time.Second/4, test.session)
				b := f.client(t)
				defer b.Close()
				s := b.connected(t)
				defer b.checkIn(s)
				time.Sleep(busy) // sleeps: heartbeats are sent, the last one at different times before the server hangs
				f.set(func(f *fakeServer) { f.silent = true })
				begun := time.Now()
				for left := false; !left; time.Sleep(time.Millisecond) {
					s.mu.Lock()
					left = !s.connected
					s.mu.Unlock()
				}
				const slack = 10 * time.Millisecond
				if took := time.Since(begun); took < test.patience-slack || took > 2*test.patience {
					t.Errorf("a session of %v left a hung server after %v, want %v to twice that", test.session, took,
						test.patience)
				}
			})
		}
	}
}

// If a link hangs between the reply to a create and that to the read of the queue, the attempt goes on without a
// context that ends, and returns within twice the time limit of a request.
func TestCreateOutlivesMissingRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(4*time.Second, time.Hour)
		b := f.client(t)
		defer b.Close()
		s := b.connected(t)
		defer b.checkIn(s)
		f.set(func(f *fakeServer) {
			f.heard = func(op int32) { f.silent = f.silent || op == opChildren }
			f.creates = true
		})
		begun := time.Now()
		_, err := b.Acquire(context.Background(), waiting("k", time.Hour))
		if took := time.Since(begun); took > 2*(defaultTimeout+answerGrace) {
			t.Errorf("acquire took %v: %v", took, err)
		}
		isUnavailable(t, "acquire", err)
	})
}

// A request that the library refuses to send is no sign of life.
func TestUnsentRequestIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(4*time.Second, 40*time.Second)
		b := f.client(t)
		defer b.Close()
		s := b.connected(t)
		defer b.checkIn(s)
		time.Sleep(time.Second) // sleeps: a sign of life must be new to be recorded
		before := s.contact.lastExpiry()
		if _, err := s.childCount(t.Context(), "/a//b"); !errors.Is(err, zk.ErrInvalidPath) {
			t.Fatal(err)
		}
		if after := s.contact.lastExpiry(); after != before {
			t.Errorf("a sign of life %v later", after.Sub(before))
		}
	})
}
