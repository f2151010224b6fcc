package zookeeper

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, test := range []struct {
		shortest, longest, most time.Duration
		tick, limit             time.Duration
	}{
		{4 * s, 40 * s, 0, 2 * s, 40 * s},
		{s, 10 * s, 0, s / 2, 10 * s},
		{4 * s, 40 * s, 10 * s, 2 * s, 10 * s},
		{4 * s, 40 * s, time.Hour, 2 * s, 40 * s},
		{4 * s, 40 * s, s, 2 * s, 4 * s},
		{4 * s, 600 * s, 0, 2 * s, 600 * s},   // maxSessionTimeout was raised
		{s, 40 * s, 0, 2 * s, 40 * s},         // minSessionTimeout was lowered
		{s, time.Hour, 30 * s, 2 * s, 30 * s}, // tickTime=500 and maxSessionTimeout raised: a longer tick is assumed
		{2 * s, 30010 * time.Millisecond, 0, 1501 * time.Millisecond, 30010 * time.Millisecond},
	} {
		l := limitsOf(test.shortest, test.longest, test.most)
		if l.tick != test.tick || l.longest != test.limit {
			t.Errorf("sessions from %v to %v, at most %v: tick %v, longest %v, want %v and %v",
				test.shortest, test.longest, test.most, l.tick, l.longest, test.tick, test.limit)
		}
		for ttl := time.Duration(1); ttl < 2*test.limit; ttl += ttl/7 + 1 {
			class := l.sessionTimeout(ttl)
			if class < test.shortest || class > max(test.limit, test.shortest) ||
				class < l.longest && l.longestTTL(class) < ttl {
				t.Errorf("ttl %v: session of %v, which keeps %v", ttl, class, l.longestTTL(class))
			}
			if class%time.Millisecond != 0 { // the unit of session timeouts in requests
				t.Errorf("ttl %v: session of %v", ttl, class)
			}
		}
		classes := map[time.Duration]bool{}
		for ttl := time.Millisecond; ttl < 2*test.limit; ttl += time.Millisecond * 10 {
			classes[l.sessionTimeout(ttl)] = true
		}
		if len(classes) > 100 {
			t.Errorf("sessions from %v to %v: %d classes", test.shortest, l.longest, len(classes))
		}
	}
	g := defaultLimits().guarantees()
	if g.MinTTL > s || g.MaxSilence < 30*s || g.MaxLate > 44*s {
		t.Errorf("guarantees of default servers: %+v", g)
	}
}

// If the longest session is too short to keep any lease without contact, opening fails, and the error contains the
// shortest sufficient timeout. Otherwise MaxSilence could be 0, which means the whole TTL, or a lease could be over at
// its grant.
func TestShortSessionsAreRefused(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, test := range []struct{ shortest, longest, most, want time.Duration }{
		{s, 40 * s, 2 * s, 3100 * time.Millisecond}, // its longest TTL is negative
		{s, 40 * s, 3 * s, 3100 * time.Millisecond}, // its longest TTL is 0
		{s, 40 * s, 3099 * time.Millisecond, 3100 * time.Millisecond},
		{s, 40 * s, 3100 * time.Millisecond, 0},
		{s, 40 * s, 0, 0},
		{20 * time.Millisecond, s / 5, s / 10, 126 * time.Millisecond},
		{20 * time.Millisecond, s / 5, 126 * time.Millisecond, 0},
	} {
		err := limitsOf(test.shortest, test.longest, test.most).validate()
		if test.want == 0 && err != nil || test.want > 0 &&
			(!errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), test.want.String())) {
			t.Errorf("sessions from %v to %v, at most %v: %v, want %v in it", test.shortest, test.longest, test.most, err,
				test.want)
		}
	}
	url := on(t, lasting).url() + "?session_timeout=2s"
	if _, err := openURL(t.Context(), url); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("%s: %v, want ErrInvalid", url, err)
	}
}

// The time until which a session is kept follows from the signs of life that the ensemble has certainly received.
func TestContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hop, timeout = time.Second, 10 * time.Second
		c := &contact{hop: hop}
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d) }
		bound := func(want time.Duration) {
			t.Helper()
			if got := c.keptUntil(); !got.Equal(backend.Deadline(at(want), timeout)) {
				t.Errorf("bound %v, want that of a sign of life at %v", got.Sub(start), want)
			}
		}
		answered := func(d time.Duration) { // at once
			time.Sleep(time.Until(at(d))) // sleeps: the answer must arrive at that time
			c.answered(at(d))
		}
		c.connected(at(0), timeout)
		if !c.keptUntil().IsZero() {
			t.Error("a connection alone proves something: its server may have been cut off")
		}
		c.committed(at(0))
		bound(0) // a new session is a write
		for i := range 40 {
			answered(time.Duration(i) * 100 * time.Millisecond)
		}
		bound(0) // answers without a write prove nothing
		c.committed(at(2950 * time.Millisecond))
		bound(1900 * time.Millisecond)
		const most = 6 * time.Second
		if got := c.limit(most); !got.Equal(backend.Deadline(at(2950*time.Millisecond), most)) {
			t.Errorf("claim %v, want %v from the last write", got.Sub(start), most)
		}
		if got := c.limit(time.Minute); !got.Equal(c.keptUntil()) {
			t.Errorf("claim %v is not the bound %v", got.Sub(start), c.keptUntil().Sub(start))
		}
		c.committed(at(1500 * time.Millisecond)) // an older write, answered later
		bound(1900 * time.Millisecond)
		c.committed(at(4900 * time.Millisecond))
		bound(3900 * time.Millisecond)
		// Another server: signs of life that the first server had not yet reported may be lost. But the leader itself has
		// answered the new handshake.
		c.connected(at(5*time.Second), timeout)
		bound(3900 * time.Millisecond)
		answered(5100 * time.Millisecond)
		c.committed(at(5200 * time.Millisecond))
		bound(5 * time.Second)
		if _, ok := c.writeTime(backend.Deadline(at(6*time.Second), timeout)); ok {
			t.Error("provable without a sign of life that is new enough")
		}
		answered(6 * time.Second)
		if ready, ok := c.writeTime(backend.Deadline(at(6*time.Second), timeout)); !ok || !ready.Equal(at(7*time.Second)) {
			t.Errorf("provable by a write at %v, %v, want 7s", ready.Sub(start), ok)
		}
		for i := range 1000 { // only the latest maxSigns are kept
			answered(time.Duration(i+70) * 100 * time.Millisecond)
		}
		if len(c.signs) > maxSigns {
			t.Errorf("%d signs of life", len(c.signs))
		}
		c.committed(at(106900 * time.Millisecond))
		bound(105900 * time.Millisecond)
	})
}

// A waiter's lease lasts for its whole TTL from its last write, even if the session was certain to exist only until
// just before that end.
func TestWaitersLeaseIsWhole(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url())
	r := waiting("k", b.guarantees.MaxSilence)
	a := newAttempt(b, r)
	a.busy = true
	if err := a.enterQueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, sent := a.s, a.sent
	s.contact.mu.Lock()
	s.contact.until = backend.Deadline(sent.Add(-50*time.Millisecond), r.TTL)
	s.contact.mu.Unlock()
	l, err := a.grant(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if short := backend.Deadline(sent, r.TTL).Sub(l.Deadline()); short > 0 {
		t.Errorf("the lease ends %v early", short)
	}
	release(t, l)
}

// A lease with a TTL longer than a session has a deadline in the future, even if the create is older than MaxSilence at
// the grant. If the deadline has passed, the lease is over, and a renewal does not revive it.
func TestLongLeaseIsWhole(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url()+"?session_timeout=3s")
	queued := func(key string) *attempt {
		t.Helper()
		a := newAttempt(b, req(key, time.Hour))
		if err := a.enterQueue(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(a.sent.Add(b.guarantees.MaxSilence))) // sleeps: the create must be older than MaxSilence
		return a
	}
	a := queued("slow")
	l, err := a.advance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(l.Deadline()); left < b.limits.heartbeat(a.class) {
		t.Errorf("a lease of an hour ends in %v", left)
	}
	release(t, l)

	// If heartbeats were late, the grant proves the session anew, and the deadline is still ahead.
	storetest.ThreeTries(t, func() error {
		a := queued("late")
		l, err := a.grant(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		end := l.Deadline()
		if ahead := time.Until(end); ahead > 0 {
			release(t, l)
			return fmt.Errorf("the deadline is %v ahead", ahead)
		}
		if err := l.Renew(t.Context(), time.Hour); !errors.Is(err, backend.ErrLost) {
			t.Errorf("renew %v after the deadline: %v", time.Since(end), err)
		}
		return nil
	})
}

// The deadline of a waiter counts from before the write that proves its node when its turn comes, not from the reply.
func TestWaitersDeadlineCountsFromSending(t *testing.T) {
	t.Parallel()
	const ttl, late = 6 * time.Second, 300 * time.Millisecond // shorter than two heartbeats
	s := on(t, usual)
	p := newProxy(t, s.Addr)
	other, b := opened(t, s.url()), opened(t, s.at(p.Addr))
	holder := acquire(t, other, req("k", time.Minute))
	done := storetest.QueueUp(t, b, waiting("k", ttl), 1)
	time.Sleep(ttl / 4) // sleeps: the write that created the waiter's node must be old
	p.set(func(p *proxy) { p.delay = late })
	release(t, holder)
	o := storetest.Granted(t, done, 2*late+soon)
	p.set(func(p *proxy) { p.delay = 0 })
	if over := o.Lease.Deadline().Sub(backend.Deadline(o.At.Add(-late), ttl)); over > 0 {
		t.Errorf("the deadline is %v later than the TTL allows, of a write that was sent %v before its reply", over, late)
	}
	releaseOrExpire(t, o.Lease)
}
