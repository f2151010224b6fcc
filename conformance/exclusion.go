package conformance

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var exclusionChecks = []Check{
	{
		Name: "ClientsShareStore",
		Rule: "Harness.Open opens clients of one store, also if the first ones are opened at the same moment: what one " +
			"holds is refused to the other",
		run: clientsShareStore,
	},
	{
		Name: "ExclusiveAcrossClients",
		Rule: "rule 1: on one key no two leases overlap between grant and release, whichever client they are granted to",
		run:  func(t *trial) { t.raceAndCheck(t.a, t.b) },
	},
	{
		Name: "ExclusiveInOneClient",
		Rule: "rule 1: goroutines that share one client exclude each other",
		run:  func(t *trial) { t.raceAndCheck(t.a) },
	},
	{
		Name: "OwnersOfOneClientExclude",
		Rule: "rule 1: two owners that share one client exclude each other too; nothing is re-entrant",
		run:  ownersOfOneClientExclude,
	},
	{
		Name: "OneAttemptWins",
		Rule: "rule 1: of attempts made at the same moment at most one is granted, the others get ErrHeld: at a free key, " +
			"and at a key whose holder has died",
		run: oneAttemptWins,
	},
	{
		Name: "ExclusiveUnderExpiry",
		Rule: "rules 1 and 2: on one key no two leases overlap between grant and deadline, and tokens follow their order",
		run:  exclusiveUnderExpiry,
	},
	{
		Name: "KeysAreIndependent",
		Rule: "rule 8: a held key does not keep others busy",
		run:  keysAreIndependent,
	},
}

// raceAndCheck has goroutines race for the key, records their calls, and checks the record.
func (t *trial) raceAndCheck(clients ...backend.Backend) {
	const (
		goroutines = 6
		rounds     = 25
		atMost     = 4 * time.Second // slow stores make fewer rounds
	)
	h, holder := t.newHistory(), &soleHolder{t: t}
	end := time.Now().Add(atMost)
	t.together(goroutines, func(i int) {
		client := clients[i%len(clients)]
		for range t.rounds(rounds, end) {
			begun := time.Now()
			g, err := t.requestKey(t.ctx, client, t.key, t.long(), true)
			if err != nil {
				t.unavailable(err, begun)
				t.fatalf("Acquire: %v", err)
			}
			holder.granted(g)
			l := h.granted(i, g)
			time.Sleep(rand.N(500 * time.Microsecond))
			if g.gone() {
				t.fatalf("a lease of %v is lost after %v", g.ttl, time.Since(g.before))
			}
			holder.releases(g)
			called := h.now()
			t.release(g)
			h.released(l, called)
		}
	})
	h.judge()
}

// A soleHolder detects a grant of the key while another lease on the key is certainly live.
type soleHolder struct {
	t  *trial
	mu sync.Mutex
	g  *grant
}

func (h *soleHolder) granted(g *grant) {
	h.mu.Lock()
	other := h.g
	h.g = g
	h.mu.Unlock()
	if other != nil && other.live(g.after) {
		h.t.doubleGrant("%s was granted the key %v before the end of the lease of %s, which has not released it", g.owner,
			time.Until(other.Deadline()), other.owner)
	}
}

// releases must be called before g is released.
func (h *soleHolder) releases(g *grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.g == g {
		h.g = nil
	}
}

func clientsShareStore(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	other, err := t.attempt(t.b, t.key, t.long())
	if other != nil {
		t.doubleGrant("two clients were granted the same key: either the harness opens a store of its own for each, or " +
			"nothing excludes")
	}
	if !errors.Is(err, backend.ErrHeld) {
		t.fatalf("Acquire of a key that another client holds: %v, want ErrHeld", err)
	}
	t.release(g)
	t.free(t.b, t.key, "after release by another client")
	if t.firstDouble != "" {
		t.doubleGrant("%s: each may have created a store of its own", t.firstDouble)
	}
	if t.firstFailure != "" {
		t.breaksText(openRule, "%s", t.firstFailure)
	}
}

func ownersOfOneClientExclude(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	t.refused(t.a, g)
	t.renew(g, t.long())
	t.refused(t.a, g)
	w := t.wait(t.a, t.key, t.long())
	t.arrived(t.key, 1)
	w.stillWaits(t, g, t.rule)
	t.heldBy(g)
	t.release(g)
	w.granted(t, t.handOff(), "after release")
}

func oneAttemptWins(t *trial) {
	const (
		rounds = 30
		each   = 4 // attempts of each client
	)
	for range rounds {
		won := t.attemptsAtOnce(t.key, 2*each)
		// If each node of a store votes for itself, the votes may be split.
		if len(won) == 0 && t.g.Consistency == backend.Linearizable {
			t.fatalf("each of %d attempts made at the same moment was refused, although nobody held the key", 2*each)
		}
		for _, g := range won {
			t.release(g)
		}
	}
	// A loser's cleanup may be pending while a part of the store does not answer.
	t.becomesFree(t.b, t.key, time.Second+t.g.MaxLate, "after the races")
	t.oneTakesOver(2 * each)
}

// attemptsAtOnce makes n attempts at key at the same moment, by both clients in turn, and returns the leases that were
// granted. It fails if there is more than one.
func (t *trial) attemptsAtOnce(key string, n int) (won []*grant) {
	var (
		mu   sync.Mutex
		gate = make(chan struct{})
	)
	time.AfterFunc(time.Millisecond, func() { close(gate) })
	t.together(n, func(i int) {
		client := t.client(i)
		<-gate
		g, err := t.attempt(client, key, t.long())
		if !t.heldOrNil(err) {
			t.fatalf("Acquire of a contended key: %v, want ErrHeld", err)
		}
		if g != nil {
			mu.Lock()
			won = append(won, g)
			mu.Unlock()
		}
	})
	if len(won) > 1 {
		t.doubleGrant("%d of %d attempts made at the same moment were granted", len(won), n)
	}
	return won
}

// oneTakesOver lets holders die, writers and readers, and makes n attempts at each of their keys at the same moment.
// Until then nobody requests the key, so a store that ends leases only at the next request has not ended these.
func (t *trial) oneTakesOver(n int) {
	const keys = 12
	t.inChunks(keys, n, func(i int) {
		get := t.acquire
		if t.g.Shared && i%4 == 3 {
			get = t.read
		}
		dead := get(t.client(i), t.newKey(), t.short())
		t.outlast(t.lastRefusal(dead.after, dead.ttl))
		for _, g := range t.attemptsAtOnce(dead.key, n) {
			t.release(g)
		}
	})
}

// exclusiveUnderExpiry races clients whose leases expire, are renewed or are released. The leases of one key follow
// each other, so several keys run at the same time to save time.
func exclusiveUnderExpiry(t *trial) {
	const keys, goroutines = 3, 6
	t.inChunks(keys, goroutines/2, func(n int) {
		var (
			key   = t.newKey()
			mu    sync.Mutex
			spans []span
		)
		t.together(goroutines, func(i int) {
			client := t.client(i)
			begun := time.Now()
			g, err := t.requestKey(t.ctx, client, key, t.short(), true)
			if err != nil {
				t.unavailable(err, begun)
				t.fatalf("Acquire: %v", err)
			}
			if (i+n)%3 == 1 {
				time.Sleep(rand.N(t.short() / 4))
				_ = g.Renew(t.ctx, t.short()) // ErrLost on a slow machine: the old deadline applies
			}
			end := g.Deadline()
			if (i+n)%3 == 2 {
				time.Sleep(rand.N(t.short() / 4))
				if now := time.Now(); now.Before(end) {
					end = now
				}
				_ = g.Release(t.ctx)
			} else if !t.within(t.g.Round(g.ttl)+soon, g.Lost()) {
				t.fatalf("Lost is not closed %v after the deadline", time.Since(g.Deadline()))
			}
			mu.Lock()
			spans = append(spans, span{owner: g.owner, token: g.Token(), from: g.after, to: end})
			mu.Unlock()
		})
		t.checkSpans(spans)
	})
}

func keysAreIndependent(t *trial) {
	held := t.acquire(t.a, t.key, t.long())
	w := t.wait(t.b, t.key, t.long())
	t.arrived(t.key, 1)
	for _, client := range []backend.Backend{t.a, t.b} {
		t.free(client, t.newKey(), "another key is held and waited for")
	}
	t.release(held)
	w.granted(t, t.handOff(), "after release")
}

// A span is the time in which a lease was certainly exclusive: from the return of Acquire to the deadline or the call
// of Release.
type span struct {
	owner    string
	token    uint64
	from, to time.Time
}

// checkSpans fails if two spans overlap, or if tokens do not increase in the order of the spans.
func (t *trial) checkSpans(spans []span) {
	// If a goroutine waited long for a processor, its lease may have ended before Acquire returned. That lease proves
	// nothing about order.
	spans = slices.DeleteFunc(spans, func(s span) bool { return !s.from.Before(s.to) })
	slices.SortFunc(spans, func(x, y span) int { return x.from.Compare(y.from) })
	for i := 1; i < len(spans); i++ {
		x, y := spans[i-1], spans[i]
		if y.from.Before(x.to) {
			t.doubleGrant("%s was granted the key %v before the end of the lease of %s", y.owner, x.to.Sub(y.from), x.owner)
		}
		if t.g.Fencing > backend.FencingNone && y.token <= x.token {
			t.breaks(7, "token %d was granted after token %d", y.token, x.token)
		}
	}
}

// heldOrNil reports whether err is nil or ErrHeld.
func (t *trial) heldOrNil(err error) bool { return err == nil || errors.Is(err, backend.ErrHeld) }
