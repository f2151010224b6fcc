package conformance

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

var inFlightChecks = []Check{
	{
		Name: "ManyInFlight",
		Rule: "rules 1, 5 and 7: with hundreds of concurrent requests one attempt wins a key, with a higher token than the " +
			"last, and each grant, renewal and release counts",
		run: manyInFlight,
	},
}

// inFlight returns how many requests the two clients have under way at once. It is at most 256, which is more than
// stores queue or pool.
func (t *trial) inFlight() int { return min(256, 2*t.h.Many) }

// atOnce runs f with 0 to n-1 at the same moment.
func (t *trial) atOnce(n int, f func(i int)) {
	var ready sync.WaitGroup
	ready.Add(n)
	t.together(n, func(i int) {
		ready.Done()
		ready.Wait()
		f(i)
	})
}

func manyInFlight(t *trial) {
	n, typical := t.inFlight(), t.typical()
	clients := []backend.Backend{t.a, t.b}
	var holders, grants atomic.Int64
	order := &tokens{t: t}
	end := time.Now().Add(time.Second)
	t.atOnce(n, func(i int) {
		const most, tries = 50, 150 // tries are limited, because a try takes almost no time on some stores
		for try := 0; try < tries && !t.ended() && grants.Load() < most && time.Now().Before(end); try++ {
			begun := time.Now()
			g, err := t.attempt(clients[i%2], t.key, t.long())
			switch {
			case errors.Is(err, backend.ErrHeld):
				moveClock(begun)
			case err != nil:
				t.fatalf("Acquire of a contended key: %v, want ErrHeld", err)
			case holders.Add(1) > 1:
				t.doubleGrant("%d of %d attempts under way hold the key at once", holders.Load(), n)
			default:
				grants.Add(1)
				if t.g.Fencing > backend.FencingNone {
					order.next(g, "grant to one of many attempts")
				}
				time.Sleep(rand.N(typical)) // a second grant would arrive during this time
				holders.Add(-1)
				t.release(g)
			}
		}
	})
	t.notef("%d grants to %d at once", grants.Load(), n)
	t.becomesFree(t.b, t.key, time.Second+t.g.MaxLate, "after the races")

	// Each goroutine holds a key of its own. A third of the leases expire soon unless their renewals take effect.
	brief := t.passing()
	held, ttls := make([]*grant, n), make([]time.Duration, n)
	t.atOnce(n, func(i int) {
		ttls[i] = []time.Duration{t.long(), brief, 2 * t.long()}[i%3]
		held[i] = t.acquire(clients[i%2], t.newKey(), ttls[i])
	})
	t.inTurns(n, func(i int) { t.keeps(held[i], ttls[i], held[i].before, held[i].after, "Acquire") })
	var last time.Time
	for _, g := range held {
		last = later(last, g.after)
	}
	t.atOnce(n, func(i int) {
		ttl := t.long() + time.Duration(i)*time.Second
		if t.longest() < ttl {
			ttl = t.long()
		}
		before := time.Now()
		t.renew(held[i], ttl)
		ttls[i] = ttl
		t.keepsDeadline(held[i], ttl, before, time.Now(), "Renew")
	})
	t.outlast(t.lastRefusal(last, brief))
	t.inTurns(n, func(i int) {
		t.remains(held[i], ttls[i], "Renew")
		t.refused(clients[(i+1)%2], held[i])
	})
	t.atOnce(n, func(i int) { t.release(held[i]) })
	t.inTurns(n, func(i int) { t.free(clients[(i+1)%2], held[i].key, "after release") })
}
