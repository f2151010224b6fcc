package file

import (
	"slices"
	"testing"
)

// fakePost records who was notified; dead inboxes cannot be reached, own are of this process.
type fakePost struct {
	dead, own        []uint64
	notified, hinted []uint64
}

func (p *fakePost) mine(q queued) bool { return slices.Contains(p.own, q.inbox) }
func (p *fakePost) hint(q queued)      { p.hinted = append(p.hinted, q.ticket) }
func (p *fakePost) reach(q queued) bool {
	if slices.Contains(p.dead, q.inbox) {
		return false
	}
	p.notified = append(p.notified, q.ticket)
	return true
}

func owners(r record) (names string) {
	for _, q := range r.queue {
		names += q.owner
	}
	return names
}

func queueOf(names string, inboxes ...uint64) (q []queued) {
	for i := range names {
		q = append(q, queued{names[i : i+1], inboxes[i], uint64(i + 1)})
	}
	return q
}

func TestOffer(t *testing.T) {
	grace := int64(claimGrace)
	for name, c := range map[string]struct {
		r                record
		who              string
		now              int64
		post             fakePost
		queue            string
		claimBy          int64
		notified, hinted []uint64
	}{
		"the first is notified, the second hinted": {
			r: record{queue: queueOf("abc", 1, 2, 3)}, now: 5,
			queue: "abc", claimBy: 5 + grace, notified: []uint64{1}, hinted: []uint64{2},
		},
		"the dead are skipped with all their waiters": {
			r: record{queue: queueOf("abcd", 1, 2, 1, 3)}, post: fakePost{dead: []uint64{1}}, now: 5,
			queue: "bd", claimBy: 5 + grace, notified: []uint64{2}, hinted: []uint64{4},
		},
		"who missed its turn is frozen": {
			r: record{claimBy: 10, queue: queueOf("abc", 1, 2, 1)}, now: 10,
			queue: "b", claimBy: 10 + grace, notified: []uint64{2},
		},
		"a turn is not taken away too soon": {
			r: record{claimBy: 10, queue: queueOf("ab", 1, 2)}, now: 9, queue: "ab", claimBy: 10,
		},
		"a slow waiter of this process does not make the process frozen": {
			r: record{claimBy: 10, queue: queueOf("ab", 1, 1)}, post: fakePost{own: []uint64{1}}, now: 10,
			queue: "b", claimBy: 10 + grace, notified: []uint64{2},
		},
		"the claimant is not notified": {
			r: record{claimBy: 10, queue: queueOf("ab", 1, 2)}, who: "b", now: 11, queue: "b",
		},
		"all dead": {
			r: record{queue: queueOf("ab", 1, 2)}, post: fakePost{dead: []uint64{1, 2}}, now: 5,
		},
		"a held key is offered to nobody": {
			r: record{owner: "o", expires: 100, queue: queueOf("ab", 1, 2)}, now: 5, queue: "ab",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.offer(c.who, c.now, &c.post)
			if owners(c.r) != c.queue || c.r.claimBy != c.claimBy || !slices.Equal(c.post.notified, c.notified) ||
				!slices.Equal(c.post.hinted, c.hinted) {
				t.Errorf("queue %q, claim by %d, notified %v, hinted %v", owners(c.r), c.r.claimBy, c.post.notified, c.post.hinted)
			}
		})
	}
}

// For a held key, the first live waiter is woken. A free key is offered instead.
func TestRouse(t *testing.T) {
	held, free := record{owner: "o", expires: 100, queue: queueOf("abcd", 1, 2, 1, 3)}, record{queue: queueOf("e", 4)}
	p := fakePost{dead: []uint64{1}}
	held.rouse(&p)
	free.rouse(&p)
	if owners(held) != "bd" || held.owner != "o" || owners(free) != "e" ||
		!slices.Equal(p.notified, []uint64{2}) || p.hinted != nil {
		t.Errorf("%+v, %+v, notified %v, hinted %v", held, free, p.notified, p.hinted)
	}
}

func TestExpire(t *testing.T) {
	for now, owner := range map[int64]string{99: "o", 100: "", 101: ""} {
		r := record{token: 7, owner: "o", expires: 100, queue: queueOf("a", 1)}
		if r.expire(now); r.owner != owner || owners(r) != "a" {
			t.Errorf("at %d: %+v", now, r)
		}
	}
}

// A waiter in its turn that leaves passes the turn on; another one's leaving does not.
func TestLeave(t *testing.T) {
	r := record{claimBy: 10, queue: queueOf("abc", 1, 2, 3)}
	if !r.leave("b") || r.claimBy != 10 || r.leave("x") {
		t.Errorf("%+v", r)
	}
	if !r.leave("a") || r.claimBy != 0 || owners(r) != "c" {
		t.Errorf("%+v", r)
	}
}
