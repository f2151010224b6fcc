package file

import (
	"slices"
	"testing"
)

// A fakeNotifier records the tickets of notified waiters. Waiters whose inboxes are in dead count as dead.
type fakeNotifier struct{ dead, notified []uint64 }

func (p *fakeNotifier) alive(q queued) bool { return !slices.Contains(p.dead, q.inbox) }
func (p *fakeNotifier) notify(q queued) bool {
	if p.alive(q) {
		p.notified = append(p.notified, q.ticket)
	}
	return p.alive(q)
}

func owners(r record) (names string) {
	for _, q := range r.queue {
		names += q.owner
	}
	return names
}

// holders returns the owners of the leases. Reservations are in brackets.
func holders(r record) (names string) {
	for _, l := range r.leases {
		if l.token == 0 {
			l.owner = "(" + l.owner + ")"
		}
		names += l.owner
	}
	return names
}

// queueOf returns waiters whose names are the letters of names. From the letter r on, waiters are shared.
func queueOf(names string, inboxes ...uint64) (q []queued) {
	for i := range names {
		q = append(q, queued{names[i : i+1], inboxes[i], uint64(i + 1), names[i] >= 'r'})
	}
	return q
}

// leasesOf returns leases whose owners are the letters of names, as in queueOf. Their tokens count from 1.
func leasesOf(names string, expires ...int64) (leases []lease) {
	for i := range names {
		leases = append(leases, lease{names[i : i+1], uint64(i + 1), expires[i], names[i] >= 'r'})
	}
	return leases
}

func TestOffer(t *testing.T) {
	grace := int64(claimGrace)
	for name, c := range map[string]struct {
		r              record
		who            string
		now            int64
		notifier       fakeNotifier
		holders, queue string
		claimBy        int64
		notified       []uint64
	}{
		"the first is notified": {
			r: record{queue: queueOf("abc", 1, 2, 3)}, now: 5,
			queue: "abc", claimBy: 5 + grace, notified: []uint64{1},
		},
		"the dead are skipped": {
			r: record{queue: queueOf("abcd", 1, 1, 2, 1)}, notifier: fakeNotifier{dead: []uint64{1}}, now: 5,
			queue: "cd", claimBy: 5 + grace, notified: []uint64{3},
		},
		"who missed its turn is removed": {
			r: record{claimBy: 10, queue: queueOf("abc", 1, 2, 1)}, now: 10,
			queue: "bc", claimBy: 10 + grace, notified: []uint64{2},
		},
		"a turn is not taken away too soon": {
			r: record{claimBy: 10, queue: queueOf("ab", 1, 2)}, now: 9, queue: "ab", claimBy: 10,
		},
		"the claimant is not notified": {
			r: record{claimBy: 10, queue: queueOf("ab", 1, 2)}, who: "b", now: 11, queue: "b",
		},
		"all dead": {
			r: record{queue: queueOf("ab", 1, 2)}, notifier: fakeNotifier{dead: []uint64{1, 2}}, now: 5,
		},
		"a held key is offered to nobody": {
			r: record{leases: leasesOf("o", 100), queue: queueOf("ab", 1, 2)}, now: 5, holders: "o", queue: "ab",
		},
		"an exclusive lease keeps shared waiters out": {
			r: record{leases: leasesOf("o", 100), queue: queueOf("r", 1)}, now: 5, holders: "o", queue: "r",
		},
		"shared waiters at the head enter together": {
			r: record{queue: queueOf("rsatb", 1, 2, 3, 4, 5)}, now: 5,
			holders: "(r)(s)", queue: "atb", notified: []uint64{1, 2},
		},
		"shared waiters join readers": {
			r: record{leases: leasesOf("z", 100), queue: queueOf("rs", 1, 2)}, now: 5,
			holders: "z(r)(s)", notified: []uint64{1, 2},
		},
		"no shared waiter passes an exclusive one": {
			r: record{leases: leasesOf("z", 100), queue: queueOf("ars", 1, 2, 3)}, now: 5, holders: "z", queue: "ars",
		},
		"a dead exclusive waiter does not keep shared ones from joining readers": {
			r: record{leases: leasesOf("z", 100), queue: queueOf("absc", 1, 1, 3, 4)}, now: 5,
			notifier: fakeNotifier{dead: []uint64{1}}, holders: "z(s)", queue: "c", notified: []uint64{3},
		},
		"dead shared waiters are skipped": {
			r: record{queue: queueOf("rst", 1, 2, 1)}, notifier: fakeNotifier{dead: []uint64{1}}, now: 5,
			holders: "(s)", notified: []uint64{2},
		},
		"an exclusive waiter that missed its turn lets the shared ones enter": {
			r: record{claimBy: 10, queue: queueOf("ars", 1, 2, 3)}, now: 10, holders: "(r)(s)", notified: []uint64{2, 3},
		},
		"shared waiters ahead of the claimant enter": {
			r: record{queue: queueOf("rat", 1, 2, 3)}, who: "a", now: 5,
			holders: "(r)", queue: "at", notified: []uint64{1},
		},
		"a shared claimant is not notified": {
			r: record{queue: queueOf("rst", 1, 2, 3)}, who: "s", now: 5,
			holders: "(r)", queue: "st", notified: []uint64{1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.offer(c.who, c.now, &c.notifier)
			if owners(c.r) != c.queue || c.r.claimBy != c.claimBy || !slices.Equal(c.notifier.notified, c.notified) ||
				holders(c.r) != c.holders {
				t.Errorf("holders %q, queue %q, claim by %d, notified %v",
					holders(c.r), owners(c.r), c.r.claimBy, c.notifier.notified)
			}
			for i, l := range c.r.leases {
				if l.token == 0 && (!l.shared || l.expires != c.now+grace+int64(i)*int64(claimGracePerLease)) {
					t.Errorf("the reservation of %s ends at %d, shared %v", l.owner, l.expires, l.shared)
				}
			}
		})
	}
}

func TestExpire(t *testing.T) {
	for now, owner := range map[int64]string{99: "o", 100: "", 101: ""} {
		r := record{leases: leasesOf("o", 100), queue: queueOf("a", 1)}
		if r.expire(now); holders(r) != owner || owners(r) != "a" {
			t.Errorf("at %d: %+v", now, r)
		}
	}
	for now, readers := range map[int64]string{10: "rst", 11: "rt", 20: "t", 100: ""} {
		r := record{leases: leasesOf("rst", 20, 11, 100)}
		if r.expire(now); holders(r) != readers {
			t.Errorf("at %d: %+v", now, r)
		}
	}
}

// If a shared waiter acquires the key by itself, for example after a lease has expired, the shared waiters behind it
// are granted the key, too.
func TestEnter(t *testing.T) {
	r := record{queue: queueOf("rsa", 1, 2, 3)}
	var p fakeNotifier
	r.reserveFor("r", true, 5, &p)
	if holders(r) != "(r)(s)" || owners(r) != "a" || !slices.Equal(p.notified, []uint64{2}) {
		t.Errorf("holders %q, queue %q, notified %v", holders(r), owners(r), p.notified)
	}
}

// A renewal notifies the first waiter if the last lease now ends earlier, and only then.
func TestWakeWhenReadersEndSooner(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(r *record, p notifier)
		notified bool
	}{
		"the reader that ends last ends sooner": {func(r *record, p notifier) { r.renew("s", true, 50, p) }, true},
		"it renews":                             {func(r *record, p notifier) { r.renew("s", true, 200, p) }, false},
		"another one ends sooner":               {func(r *record, p notifier) { r.renew("r", true, 5, p) }, false},
	} {
		r := record{leases: leasesOf("rs", 20, 100), queue: queueOf("a", 1)}
		var p fakeNotifier
		c.change(&r, &p)
		if len(p.notified) > 0 != c.notified || owners(r) != "a" {
			t.Errorf("%s: notified %v, queue %q", name, p.notified, owners(r))
		}
	}
}

// A renewal changes only its owner's lease, and does not revive an expired one. A release ends only its owner's lease.
func TestReadersAreIndependent(t *testing.T) {
	r := record{leases: leasesOf("rst", 20, 30, 40)}
	r.leases[2].token = 0 // a reservation
	var p fakeNotifier
	r.expire(20)
	for owner, token := range map[string]uint64{"r": 0, "s": 2, "t": 0, "x": 0} {
		if got, ok := r.renew(owner, true, 90, &p); got != token || ok != (token > 0) {
			t.Errorf("renewal of %s: %d %v", owner, got, ok)
		}
	}
	if _, ok := r.renew("s", false, 95, &p); ok {
		t.Error("a shared lease was renewed as an exclusive one")
	}
	want := []lease{{"s", 2, 90, true}, {"t", 0, 40, true}}
	if !slices.Equal(r.leases, want) {
		t.Errorf("%+v, want %+v", r.leases, want)
	}
	if had, _ := r.release("t", 20, &p); !had || holders(r) != "s" {
		t.Errorf("%+v", r.leases)
	}
}

// If the first waiter leaves the queue, its reservation ends. If another waiter leaves, the reservation does not
// change.
func TestLeave(t *testing.T) {
	r := record{claimBy: 10, queue: queueOf("abc", 1, 2, 3)}
	if !r.removeWaiter("b") || r.claimBy != 10 || r.removeWaiter("x") {
		t.Errorf("%+v", r)
	}
	if !r.removeWaiter("a") || r.claimBy != 0 || owners(r) != "c" {
		t.Errorf("%+v", r)
	}
}
