package file

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// A model simulates the clients of one key in fake time, each in its own process. They acquire, renew, release, cancel
// and die at random. A client tries as soon as it is notified, and otherwise when it polls.
type model struct {
	t       *testing.T
	rand    *rand.Rand
	store   *store
	now     int64
	r       record
	clients []*client

	exclusive, shared uint64        // the highest tokens
	count             uint64        // of clients and of arrivals in the queue
	grants, together  int           // together: live leases beside a grant, for all grants
	longest           time.Duration // longest time that a waiter was parked
}

type client struct {
	attempt
	dead     bool
	notified bool
	until    int64  // end of the lease; 0 if there is none
	arrival  uint64 // order of arrival in the queue; 0 if it is not there
	poll     int64
	parked   int64 // since when nothing keeps the waiter from the key: see kept; 0 if something does
}

func (c *client) conflicts(shared bool) bool { return !c.r.Shared || !shared }

// notify implements notifier for the clients of the model.
func (m *model) notify(q queued) bool { m.client(q).notified = true; return m.alive(q) }
func (m *model) alive(q queued) bool  { return !m.client(q).dead }

func (m *model) client(q queued) *client {
	return m.clients[slices.IndexFunc(m.clients, func(c *client) bool { return c.ticket.number == q.ticket })]
}

func (m *model) join() {
	m.count++
	c := &client{}
	c.b, c.ticket.number = &Backend{store: m.store}, m.count
	c.ttl = time.Duration(1 + m.rand.Int64N(int64(2*time.Second)))
	c.r = backend.Request{Owner: fmt.Sprint(m.count), Shared: m.rand.IntN(3) > 0, Wait: m.rand.IntN(4) > 0}
	m.clients = append(m.clients, c)
}

// load returns the record as the next request reads it.
func (m *model) load() record {
	r, err := decodeRecord(m.r.append(nil))
	if err != nil {
		m.t.Fatal(err)
	}
	r.last = m.r.last
	r.expire(m.now)
	return r
}

func (m *model) try(c *client) {
	r := m.load()
	c.granted, c.notified = false, false
	if c.change(&r, m.now, m, c.ticket.number) {
		m.r = r
	}
	switch {
	case c.granted:
		m.checkGrant(c)
		c.until, c.arrival = m.now+int64(c.ttl), 0
	case c.r.Wait && c.arrival == 0:
		m.count++
		c.arrival = m.count
	case !c.r.Wait && !m.kept(c):
		m.t.Fatalf("client %s (shared %v) is refused a key that nobody keeps from it: %+v", c.r.Owner, c.r.Shared, m.r)
	}
	c.poll = m.now + int64(c.pause)
	m.deliver()
}

func (m *model) checkGrant(c *client) {
	m.grants++
	for _, d := range m.clients {
		switch waits := d.arrival > 0 && !d.dead; {
		case d == c:
		case d.until > m.now && d.conflicts(c.r.Shared):
			m.t.Fatalf("%s (shared %v) holds the key beside %s", c.r.Owner, c.r.Shared, d.r.Owner)
		case d.until > m.now:
			m.together++
		case waits && d.conflicts(c.r.Shared) && (c.arrival == 0 || d.arrival < c.arrival):
			m.t.Fatalf("%s (shared %v) overtakes %s", c.r.Owner, c.r.Shared, d.r.Owner)
		}
	}
	token := c.grant.Token
	if token <= m.exclusive || !c.r.Shared && token <= m.shared {
		m.t.Fatalf("token %d after %d exclusive, %d shared", token, m.exclusive, m.shared)
	}
	if c.r.Shared {
		m.shared = max(m.shared, token)
	} else {
		m.exclusive = token
	}
}

// kept reports whether a lease, a reservation or a live waiter ahead keeps a client from the key.
func (m *model) kept(c *client) bool {
	r := m.load()
	return r.claimBy > m.now || slices.ContainsFunc(r.leases, func(l lease) bool { return c.conflicts(l.shared) }) ||
		slices.ContainsFunc(m.clients, func(d *client) bool {
			ahead := d.arrival > 0 && !d.dead && (c.arrival == 0 || d.arrival < c.arrival)
			return d != c && ahead && d.conflicts(c.r.Shared)
		})
}

// deliver lets the notified clients try, in random order. One in twenty dies instead.
func (m *model) deliver() {
	var came []*client
	for _, c := range m.clients {
		if c.notified && c.arrival > 0 && !c.dead {
			came = append(came, c)
		}
	}
	if len(came) == 0 {
		return
	}
	if c := came[m.rand.IntN(len(came))]; m.rand.IntN(20) == 0 {
		c.dead = true
		m.deliver()
	} else {
		m.try(c)
	}
}

// checkParked checks that nothing but dead waiters blocks a live waiter for longer than most: not at all after a
// request, because a request offers the key, and otherwise for at most one poll interval.
func (m *model) checkParked(most time.Duration) {
	for _, c := range m.clients {
		if c.arrival == 0 || c.dead || m.kept(c) {
			c.parked = 0
			continue
		}
		if c.parked == 0 {
			c.parked = m.now
		}
		m.longest = max(m.longest, time.Duration(m.now-c.parked))
		if m.now-c.parked > int64(most) {
			m.t.Fatalf("client %s (shared %v) has been parked for %v: %+v",
				c.r.Owner, c.r.Shared, time.Duration(m.now-c.parked), m.r)
		}
	}
}

// pass advances the time. Waiters poll meanwhile.
func (m *model) pass(d time.Duration) {
	for end := m.now + int64(d); m.now < end; {
		next := (*client)(nil)
		m.now++
		for _, c := range m.clients {
			if c.arrival > 0 && !c.dead && (next == nil || c.poll < next.poll) {
				next = c
			}
		}
		if next == nil || next.poll > end {
			m.now = end
		} else {
			m.now = max(m.now, next.poll)
			m.try(next)
		}
		m.checkParked(pollEvery)
	}
}

// step performs one action of a random client.
func (m *model) step() {
	c := m.clients[m.rand.IntN(len(m.clients))]
	holds := c.until > m.now
	switch {
	case m.rand.IntN(30) == 0:
		c.dead = true
	case c.dead:
	case holds && m.rand.IntN(2) == 0:
		r, ttl := m.load(), time.Duration(1+m.rand.Int64N(int64(2*time.Second)))
		if token, ok := r.renew(c.r.Owner, c.r.Shared, m.now+int64(ttl), m); !ok || token != c.grant.Token {
			m.t.Fatalf("a live lease is not renewed: token %d, want %d, %v", token, c.grant.Token, ok)
		}
		m.r, c.until = r, m.now+int64(ttl)
		m.deliver()
	case holds, c.arrival > 0:
		r := m.load()
		if had, _ := r.release(c.r.Owner, m.now, m); !had && holds {
			m.t.Fatal("nothing to release")
		}
		m.r, c.until, c.arrival, c.dead = r, 0, 0, true
		m.deliver()
		m.checkParked(0)
	case c.until > 0: // the lease has run out
		r := m.load()
		if _, ok := r.renew(c.r.Owner, c.r.Shared, m.now+int64(c.ttl), m); ok {
			m.t.Fatal("a renewal revives a lease")
		}
		c.dead = true
	default:
		m.try(c)
		c.dead = c.until == 0 && c.arrival == 0
		m.checkParked(0)
	}
}

// TestModel checks exclusion, tokens, the order of grants, and how long a waiter may be parked, in random histories.
func TestModel(t *testing.T) {
	grants, together, longest := 0, 0, time.Duration(0)
	for seed := range uint64(300) {
		m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: 1, store: &store{wall: time.Now}}
		for range 300 {
			m.clients = slices.DeleteFunc(m.clients, func(c *client) bool {
				return c.dead && c.until <= m.now && m.r.place(c.r.Owner) < 0
			})
			for len(m.clients) < 7 { // few enough that each polls about once a second
				m.join()
			}
			m.pass(time.Duration(m.rand.Int64N(int64(200 * time.Millisecond))))
			m.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		grants, together, longest = grants+m.grants, together+m.together, max(longest, m.longest)
	}
	t.Logf("%d grants, %d times beside readers, parked for %v at most", grants, together, longest)
	if grants < 10_000 || together < 10_000 {
		t.Error("too few grants")
	}
}
