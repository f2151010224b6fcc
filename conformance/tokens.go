package conformance

import (
	"time"

	"github.com/anylock/lock/backend"
)

var tokenChecks = []Check{
	{
		Name: "TokensIncrease",
		Rule: "rule 7: tokens strictly increase per key, across release and expiry and across clients; below 2^55; that of " +
			"a lease never changes, not even with its end",
		Needs: []Need{needsTokens},
		run:   tokensIncrease,
	},
	{
		Name:  "TokensIncreaseForWaiters",
		Rule:  "rule 7: tokens strictly increase per key, for waiters too",
		Needs: []Need{needsTokens},
		run:   tokensIncreaseForWaiters,
	},
	{
		Name: "TokensOutliveClients",
		Rule: "rule 7: tokens strictly increase per key when every client was closed in between, and over many grants by a " +
			"client that is alone",
		Needs: []Need{needsTokens},
		alone: true, // no client of another check is open meanwhile
		run:   tokensOutliveClients,
	},
	{
		Name: "NoTokensPromised",
		Rule: "Lease.Token is 0 where Guarantees.Fencing is FencingNone",
		Needs: []Need{{"Guarantees.Fencing", "the store gives tokens (Guarantees.Fencing)",
			func(g backend.Guarantees, _ Harness) bool { return g.Fencing == backend.FencingNone }}},
		run: func(t *trial) {
			if g := t.acquire(t.a, t.key, t.long()); g.Token() != 0 {
				t.fatalf("token %d", g.Token())
			}
		},
	},
}

// tokens checks the tokens of one key, in the order of its grants.
type tokens struct {
	t    *trial
	last uint64
}

// next fails unless the token of g is higher than all tokens before it, and below the limit.
func (s *tokens) next(g *grant, when string) {
	const limit = 1 << 55 // package lock shifts tokens by 8 bits, and stays below 2^63
	switch token := g.Token(); {
	case token >= limit:
		s.t.fatalf("%s: token %d is not below 2^55", when, token)
	case token <= s.last:
		s.t.fatalf("%s: token %d after %d", when, token, s.last)
	default:
		s.last = token
	}
}

// stays fails unless g, the lease that was granted last, has its token still.
func (s *tokens) stays(g *grant, with string) {
	if token := g.Token(); token != s.last {
		s.t.fatalf("the token changed from %d to %d with %s", s.last, token, with)
	}
}

func tokensIncrease(t *trial) {
	t.inChunks(6, 2, func(n int) {
		s, key := &tokens{t: t}, t.newKey()
		for i := range 12 {
			client := []backend.Backend{t.a, t.b, t.b}[i%3]
			g := t.acquire(client, key, t.short())
			s.next(g, "grant of a free key")
			if i%4 == 3 && i/4 == n%3 { // one expiry for each key, because expiries take long
				t.expire(g)
				s.stays(g, "expiry")
				time.Sleep(time.Until(g.after.Add(2 * t.g.Round(t.short())))) // sleeps: a counter may expire soon after the lease
				g = t.acquire(client, key, t.long())
				s.next(g, "grant after expiry")
			}
			t.renew(g, t.long())
			t.refused(t.a, g)
			s.stays(g, "renewal")
			t.endsSomehow(g, i)
			s.stays(g, "its end")
		}
	})
}

// endsSomehow releases or breaks g, or resumes it before the release. n decides which.
func (t *trial) endsSomehow(g *grant, n int) {
	breaker, breaks := t.a.(backend.Breaker)
	_, resumes := t.a.(backend.Resumer)
	switch {
	case n%4 == 1 && breaks:
		t.mustBreak(breaker, g)
	case n%4 == 2 && resumes:
		t.release(t.resume(t.other(g.client), g, t.long()))
	default:
		t.release(g)
	}
}

func tokensIncreaseForWaiters(t *trial) {
	s := &tokens{t: t}
	g := t.acquire(t.a, t.key, t.awaited())
	s.next(g, "grant of a free key")
	for i := range 6 {
		w := t.wait([]backend.Backend{t.b, t.a}[i%2], t.key, t.awaited())
		t.arrived(t.key, 1)
		if i%3 == 1 {
			leaves := t.wait(t.a, t.key, t.awaited())
			t.arrived(t.key, 2)
			leaves.cancelAndFail(t)
			t.queueAtMost(1)
		}
		if i%3 != 2 {
			t.release(g)
		}
		g = w.granted(t, t.awaited()+t.handOff(), "after the holder's end")
		s.next(g, "grant to a waiter")
	}
}

// tokensOutliveClients closes all clients several times: at first while no lease is held, then while one is.
func tokensOutliveClients(t *trial) {
	const rounds, last = 6, 2 // last is the last round in which no lease is held at the end
	s := &tokens{t: t}
	for _, b := range []backend.Backend{t.a, t.b} {
		if err := b.Close(); err != nil {
			t.fatalf("Close: %v", err)
		}
	}
	var held *grant
	for n := range rounds {
		c := t.open()
		if held != nil {
			t.keptWithoutClients(c, held)
		}
		g := t.acquire(c, t.key, t.long())
		s.next(g, "grant by a new client")
		t.release(g)
		if n < 2 { // by two clients: the number that the first one shares may have the next bit set already
			s.nextOfMany(c)
		}
		if n == last {
			held = t.acquire(c, t.newKey(), t.long())
		}
		if err := c.Close(); err != nil {
			t.fatalf("Close: %v", err)
		}
	}
}

// nextOfMany has c, the only client, acquire the key again and again. A client may share one number of the store among
// its grants, and count them in a few bits of its tokens.
func (s *tokens) nextOfMany(c backend.Backend) {
	const (
		grants = 1100            // more than ten bits count
		atMost = 2 * time.Second // slow stores make fewer
	)
	for range s.t.rounds(grants, time.Now().Add(atMost)) {
		g := s.t.acquire(c, s.t.key, s.t.long())
		s.next(g, "one of many grants by one client")
		s.t.release(g)
	}
}

// keptWithoutClients fails if c, which was opened when all clients were closed, is granted the key of held.
func (t *trial) keptWithoutClients(c backend.Backend, held *grant) {
	end := backend.Deadline(held.before, t.kept(held.ttl))
	if other, _ := t.attempt(c, held.key, t.long()); other != nil && other.after.Before(end) && !t.mayEndLeases() {
		t.breaksText(closeEndsRule, "when all clients were closed, a new one was granted a key %v before the deadline of "+
			"its lease", end.Sub(other.after))
	}
}
