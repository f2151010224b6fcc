package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of random queues of readers and writers against a model.
var sharedQueueChecks = []Check{
	{
		Name: "MixedQueueFollowsModel",
		Rule: "rule 9: whatever readers and writers come, leave, release and expire, each has the key as soon as " +
			"nobody ahead conflicts, not before",
		Needs: []Need{needsFIFO},
		run:   mixedQueueFollowsModel,
	},
}

func mixedQueueFollowsModel(t *trial) {
	const (
		queues = 4
		steps  = 100
		atMost = 5 * time.Second
	)
	defer t.watchStore()()
	end := time.Now().Add(atMost)
	most := max(2, min(9, t.h.Many)) // all of them may be leases of one client
	t.inChunks(queues, most, func(i int) {
		q := &mixedQueue{trial: t, key: t.newKey(), random: t.newHistory().random(i), tokens: sharedTokens{t: t}, most: most,
			fills: true, limits: make(map[*waiting]timeLimit)}
		for range t.rounds(steps, end) {
			q.step()
		}
		q.drain()
		t.becomesFree(t.b, q.key, t.handOff(), "after readers and writers")
	})
}

// A mixedQueue is a key with the leases that hold it, and the requests that wait for it in order of arrival.
type mixedQueue struct {
	*trial
	key     string
	random  dice
	tokens  sharedTokens
	most    int  // number of holders and waiters together
	fills   bool // requests arrive until most is reached; then none until almost all have left
	holders []*grant
	waits   []*waiting
	limits  map[*waiting]timeLimit
	events  []string // for failure messages
}

// after describes the latest events.
func (q *mixedQueue) after() string {
	const most = 12
	last := q.events[max(0, len(q.events)-most):]
	return "after " + strings.Join(last, ", ")
}

func (q *mixedQueue) did(format string, args ...any) {
	q.events = append(q.events, fmt.Sprintf(format, args...))
}

func mode(shared bool) string {
	if shared {
		return "reader"
	}
	return "writer"
}

// step makes one random change and checks its effects.
func (q *mixedQueue) step() {
	shared := q.random.IntN(5) < 3
	n := len(q.holders) + len(q.waits)
	if q.fills = q.fills && n < q.most || n < 2; q.fills && (n == 0 || q.random.IntN(4) > 0) {
		q.arrive(shared)
		return
	}
	switch what := q.random.IntN(20); {
	case what < 3 && n < q.most:
		q.try(shared)
	case what < 9 && len(q.waits) > 0:
		q.leave(q.random.IntN(len(q.waits)))
	case what == 9:
		q.expire(q.random.IntN(len(q.holders)))
	case what == 10:
		q.renewOne(q.random.IntN(len(q.holders)))
	case what == 11:
		q.breakOne(q.random.IntN(len(q.holders)))
	default:
		q.releaseOne(q.random.IntN(len(q.holders)))
	}
}

// arrive starts a request, which must wait or hold the key at once.
func (q *mixedQueue) arrive(shared bool) {
	client := q.client(q.random.IntN(2))
	limit := newTimeLimit(q.ctx)
	w := q.begin(limit, client, backend.Request{Key: q.key, Owner: backend.NewOwner(), TTL: q.long(), Wait: true,
		Shared: shared})
	q.limits[w] = limit
	q.waits = append(q.waits, w)
	q.did("a %s came", mode(shared))
	if q.mayEnter(len(q.waits) - 1) {
		q.awaitHolders()
		return
	}
	q.arrived(q.key, len(q.waits))
	q.awaitHolders()
}

// mayEnter reports whether nobody ahead of waits[i] conflicts with it.
func (q *mixedQueue) mayEnter(i int) bool {
	shared := q.waits[i].shared
	return !slices.ContainsFunc(q.holders, func(g *grant) bool { return !g.shared || !shared }) &&
		!slices.ContainsFunc(q.waits[:i], func(w *waiting) bool { return !w.shared || !shared })
}

// awaitHolders waits until all requests that may hold the key do. It fails if another request holds the key.
func (q *mixedQueue) awaitHolders() {
	for len(q.waits) > 0 && q.mayEnter(0) {
		w := q.waits[0]
		if !q.within(q.handOff(), w.done) {
			q.notInTime(q.rule, "%s: a %s that conflicts with nobody ahead has not been granted the key within %v", q.after(),
				mode(w.shared), q.handOff())
		}
		q.tokens.granted(w.granted(q.trial, tick, q.after()), q.after())
		q.holders = append(q.holders, w.grant)
		q.waits = q.waits[1:]
	}
	for _, w := range q.waits {
		var ahead *grant
		for _, g := range q.holders {
			if !g.shared || !w.shared {
				ahead = g
			}
		}
		if ahead == nil && w.ended() && w.err == nil {
			q.breaks(9, "%s: a %s was granted the key before one that waits ahead of it, and conflicts", q.after(),
				mode(w.shared))
		}
		w.stillWaits(q.trial, ahead, q.rule)
	}
}

func (q *mixedQueue) try(shared bool) {
	r := backend.Request{Key: q.key, Owner: backend.NewOwner(), TTL: q.long(), Shared: shared}
	may := shared && !slices.ContainsFunc(q.holders, func(g *grant) bool { return !g.shared }) && len(q.waits) == 0
	begun := time.Now()
	g, err := q.request(q.ctx, q.client(q.random.IntN(2)), r)
	q.lateOnTimeout(err, begun)
	q.did("a %s tried", mode(shared))
	switch {
	case g == nil && may:
		q.fatalf("%s: shared Acquire that does not wait, with readers only: %v", q.after(), err)
	case g != nil && may:
		q.tokens.granted(g, q.after())
		q.holders = append(q.holders, g)
	case g != nil && len(q.holders) > 0 && (!shared || !q.holders[0].shared):
		q.doubleGrant("%s: a %s was granted the key that another lease holds", q.after(), mode(shared))
	case g != nil:
		q.breaks(9, "%s: a %s that does not wait was granted the key before those that wait", q.after(), mode(shared))
	}
	q.awaitHolders()
}

func (q *mixedQueue) leave(i int) {
	w := q.waits[i]
	if q.random.IntN(2) == 0 {
		q.did("%s %d in the queue left", mode(w.shared), i+1)
		w.cancelAndFail(q.trial)
	} else {
		q.did("the time of %s %d in the queue was up", mode(w.shared), i+1)
		q.limits[w].passes()
		err := w.fails(q.trial, "Acquire whose time was up")
		w.unavailable(q.trial)
		q.endsByDeadline(err, "Acquire")
	}
	q.waits = slices.Delete(q.waits, i, i+1)
	q.queueAtMostOf(q.key, len(q.waits))
	q.awaitHolders()
}

func (q *mixedQueue) releaseOne(i int) {
	g := q.holders[i]
	q.did("a %s released", mode(g.shared))
	q.release(g)
	q.ended(i)
}

// breakOne breaks the lease of a holder, if the store supports Break, and otherwise releases the lease.
func (q *mixedQueue) breakOne(i int) {
	breaker, ok := q.client(q.random.IntN(2)).(backend.Breaker)
	if !ok || q.g.MaxLeases > 0 { // with a limit, the lease may count until its client learns of the Break
		q.releaseOne(i)
		return
	}
	g := q.holders[i]
	q.did("the lease of a %s was broken", mode(g.shared))
	q.mustBreak(breaker, g)
	q.ended(i)
}

// renewOne renews the lease of a holder, or resumes it by the other client.
func (q *mixedQueue) renewOne(i int) {
	g, ways := q.holders[i], q.renewals()
	_, resumes := g.client.(backend.Resumer)
	if n := q.random.IntN(len(ways) + 1); n < len(ways) {
		q.did("a %s was renewed by %s", mode(g.shared), ways[n].what)
		q.renewBy(g, q.long(), func() error { return ways[n].renew(q.ctx, g, q.long()) })
	} else if resumes && q.g.MaxLeases == 0 { // with a limit, the lease may count for both clients
		q.did("the lease of a %s was resumed", mode(g.shared))
		g.ended.Store(true) // for its first client
		q.holders[i] = q.resume(q.other(g.client), g, q.long())
	}
	q.awaitHolders()
}

// ended removes a holder whose lease has ended.
func (q *mixedQueue) ended(i int) {
	q.tokens.ended(q.holders[i])
	q.holders = slices.Delete(q.holders, i, i+1)
	q.awaitHolders()
}

// expire lets the lease of a holder expire, while the others hold theirs.
func (q *mixedQueue) expire(i int) {
	g := q.holders[i]
	if q.passing() > time.Second {
		return // an expiry would take too long
	}
	q.did("the lease of a %s expired", mode(g.shared))
	q.renew(g, q.short())
	renewed := time.Now()
	if !q.within(q.g.Round(q.short())+soon, g.Lost()) {
		q.breaks(6, "Lost is not closed %v after the deadline", time.Since(g.Deadline()))
	}
	if len(q.waits) == 0 {
		q.outlast(q.lastRefusal(renewed, q.short()))
	}
	q.ended(i)
}

// drain releases all leases, including those granted to waiters meanwhile.
func (q *mixedQueue) drain() {
	for len(q.holders) > 0 {
		q.releaseOne(rand.N(len(q.holders)))
	}
}

// sharedTokens checks the tokens of one key's leases, in the order of their grants and ends.
type sharedTokens struct {
	t         *trial
	exclusive uint64 // highest token of exclusive leases and of ended shared leases
	shared    uint64 // highest token of shared leases
}

// granted fails unless the token of g is higher than those of all earlier leases, except leases that share the key with
// g.
func (s *sharedTokens) granted(g *grant, when string) {
	if s.t.g.Fencing == backend.FencingNone {
		return
	}
	token := g.Token()
	switch {
	case token >= backend.TokenLimit:
		s.t.breaks(7, "%s: token %d is not below 2^55", when, token)
	case token <= s.exclusive:
		s.t.breaks(7, "%s: a %s has token %d, after a lease with token %d", when, mode(g.shared), token, s.exclusive)
	case !g.shared && token <= s.shared:
		s.t.breaks(7, "%s: a writer has token %d, after a reader with token %d", when, token, s.shared)
	case g.shared:
		s.shared = max(s.shared, token)
	default:
		s.exclusive = token
	}
}

// ended records the end of g: every later lease must have a higher token.
func (s *sharedTokens) ended(g *grant) { s.exclusive = max(s.exclusive, g.Token()) }
