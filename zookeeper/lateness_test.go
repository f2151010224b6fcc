package zookeeper

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// When a process freezes, the longest TTL that its lease has had determines how late the key becomes free. Earlier,
// shorter TTLs and the sessions of its other leases do not matter. The time counts from the freeze: while the process
// lives, it keeps all leases of a class, even a lease that nobody renews. So a freeze just before the end of a lease is
// the worst case.
func TestFrozenProcessIsLateByItsLongestTTL(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	for _, test := range []struct {
		first, last time.Duration
		frozen      time.Duration // after the last renewal
		batch       bool
	}{
		{first: 8 * time.Second, last: time.Second},
		{first: 8 * time.Second, last: time.Second, batch: true},
		{first: time.Hour, last: time.Second},
		{first: time.Second, last: 4 * time.Second},
		{first: 2 * time.Second, last: 2 * time.Second, frozen: 1500 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			t.Parallel()
			for attempt := 1; ; attempt++ { // the machine may stand still meanwhile
				late := lateness(t, s, c, test.first, test.last, test.frozen, test.batch)
				if late == nil {
					return
				}
				if t.Log(late); attempt == 3 {
					t.Fatal(late)
				}
			}
		})
	}
}

// lateness renews a lease, waits for the time before, and freezes the process. It returns an error if the key became
// free too late.
func lateness(t *testing.T, s spot, c *zk.Conn, first, last, before time.Duration, batch bool) error {
	t.Helper()
	p := newProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	key := fmt.Sprint(t.Name(), spots.Add(1))
	acquireShort(t, b, key+" other", first)
	l := acquireShort(t, b, key, first)
	token, end := l.Token(), l.Deadline()
	path := l.(lease).n.path()
	var err error
	if batch {
		err = b.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: last}})[0]
	} else {
		err = l.Renew(t.Context(), last)
	}
	if errors.Is(err, backend.ErrLost) && !time.Now().Before(end) {
		return err
	}
	if err != nil {
		t.Fatal(err)
	}
	if l.Token() != token {
		t.Errorf("token %d after %d", l.Token(), token)
	}
	deadline := l.Deadline()
	time.Sleep(before) // sleeps: the age of the renewal
	p.set(func(p *proxy) { p.silent = true })
	frozen := time.Now()
	// The node was deleted between seen and missed. If the machine stands still, these times are far apart.
	seen, missed := gone(t, c, path, 20*time.Second)
	if early := deadline.Sub(missed); early > 0 {
		t.Errorf("the key was free %v before the deadline", early)
	}
	class := b.limits.sessionTimeout(max(first, last))
	if late := seen.Sub(frozen); late > class+b.limits.expiryDelay()+lateSlack {
		return fmt.Errorf("the key was taken %v after the freeze, with a session of %v", late, class)
	}
	if late := seen.Sub(deadline); late > b.guarantees.MaxLate {
		return fmt.Errorf("the key was taken %v after the deadline, want less than %v", late, b.guarantees.MaxLate)
	}
	t.Logf("free %v after the freeze, %v after the deadline; sessions of %v",
		missed.Sub(frozen), missed.Sub(deadline), class)
	return nil
}
