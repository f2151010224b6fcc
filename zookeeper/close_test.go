package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// An attempt that Close meets just before its grant fails, and leaves nothing behind: its session is not left to expire, as if it
// had a lease.
func TestCloseMeetsGrant(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	r := req("k", time.Minute)
	a := &attempt{b: b, r: r, ttl: r.TTL, class: b.limits.session(r.TTL), begun: time.Now()}
	sess, err := b.enter(a.class)
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(b, r)
	n.s = sess
	_, sent, err := sess.create(t.Context(), n, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.keep(sess, n); err != nil { // the attempt is about to ask for the lease
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	until(t, soon, "leases are closed", b.leases.Closed)
	time.Sleep(50 * time.Millisecond) // and Close looks at the sessions
	if _, err := b.enter(a.class); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("entered while Close waits for those that are in: %v", err)
	}
	if _, err := a.grant(t.Context(), sess, n, sent); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("grant: %v, want ErrClosed", err)
	}
	b.leave(sess)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	until(t, sess.class/2, "the key is free", func() bool { return len(places(t, c, b, "k")) == 0 })
}
