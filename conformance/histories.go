package conformance

import (
	"runtime"
	"time"

	"github.com/anylock/lock/backend"
)

// historyChecks record histories of clients, most of them under random faults, and test them against a model.
var historyChecks = []Check{
	{
		Name: "HistoryUnderContention",
		Rule: "rules 1, 5 and 7: what racing clients see is what a store of leases with increasing tokens does, which " +
			"refuses held keys only",
		run: historyUnderContention,
	},
	{
		Name: "HistoryUnderExpiry",
		Rule: "rules 1, 2, 3, 5 and 7: so it is when leases run out, and late holders renew and release what is no " +
			"longer theirs",
		run: historyUnderExpiry,
	},
	{
		Name:  "HistoryUnderLinkFaults",
		Rule:  "rules 1, 2, 3, 4, 5 and 7: so it is when clients' links to the store break, hang, lose and delay what passes",
		Needs: []Need{needsLinked},
		run:   historyUnderLinkFaults,
	},
	{
		Name:  "HistoryUnderProcessFaults",
		Rule:  "rules 1, 2, 3, 4, 5 and 7: so it is when processes that hold, renew or ask are frozen and killed",
		Needs: []Need{needsProcess},
		run:   historyUnderProcessFaults,
	},
	{
		Name:  "HistoryUnderOutages",
		Rule:  "rules 1, 2, 3, 4, 5 and 7: so it is when the store stops answering, or is killed and started again",
		Needs: []Need{needsOutages},
		alone: true,
		run:   historyUnderOutages,
	},
}

var needsOutages = Need{"Harness.Restart", "the harness has neither Freeze and Thaw nor Restart hooks",
	func(_ backend.Guarantees, h Harness) bool {
		return h.Restart != nil || h.Freeze != nil && h.Thaw != nil
	}}

// mixed reports whether the check mixes shared and exclusive leases. Most requests of its histories are then shared.
func (t *trial) mixed() bool { return t.group == sharedGroup }

// newWorkKeys returns two fresh keys.
func (t *trial) newWorkKeys() workKeys { return workKeys{waited: t.newKey(), tried: t.newKey()} }

// span is how long histories last.
func (t *trial) span() time.Duration {
	const least, most = 3 * time.Second, 6 * time.Second
	d := min(max(12*t.short(), least), most)
	if t.shortMode {
		d /= 2
	}
	return d
}

func historyUnderContention(t *trial) {
	h, keys := t.newHistory(), t.newWorkKeys()
	h.run(t.span()/2, h.workers(keys, worker{shares: t.mixed()}, t.a, t.b, t.a, t.b, t.a, t.b), nil)
	h.drain(keys)
}

func historyUnderExpiry(t *trial) {
	h, keys := t.newHistory(), t.newWorkKeys()
	h.run(t.span(), h.workers(keys, worker{expires: true, shares: t.mixed()}, t.a, t.b, t.a, t.b, t.a), nil)
	h.drain(keys)
}

func historyUnderLinkFaults(t *trial) {
	h, keys := t.newHistory(), t.newWorkKeys()
	c, first := t.linked()
	d, second := t.linked()
	bound := (&cutter{t: t, client: c, link: first}).bindsLeases()
	h.run(t.span(), h.workers(keys, worker{expires: true, faulty: true, shares: t.mixed()}, t.a, t.b, c, c, d, d),
		[]func(until time.Time){
			func(until time.Time) { h.breakLink(first, 2, bound, until) },
			func(until time.Time) { h.breakLink(second, 4, bound, until) },
		})
	h.drain(keys)
}

func historyUnderProcessFaults(t *trial) {
	h, keys := t.newHistory(), t.newWorkKeys()
	const first, second = 10, 20 // numbers of the first worker in each process
	h.run(t.span(), h.workers(keys, worker{expires: true, faulty: true, shares: t.mixed()}, t.a, t.b, t.a),
		[]func(until time.Time){
			func(until time.Time) { h.workedIn(first, keys, t.mixed(), until) },
			func(until time.Time) { h.workedIn(second, keys, t.mixed(), until) },
		})
	h.drain(keys)
}

func historyUnderOutages(t *trial) {
	h, keys := t.newHistory(), t.newWorkKeys()
	h.run(t.span(), h.workers(keys, worker{expires: true, faulty: true, shares: t.mixed()}, t.a, t.b, t.a, t.b, t.a),
		[]func(until time.Time){h.disturbStore})
	h.drain(keys)
}

// workers returns one worker for each client. Every other worker never waits. A fault of a client has the number of the
// first worker of that client. If leases are shared, there are fewer workers, because each may have two leases: one
// that it left to expire, and the next.
func (h *history) workers(keys workKeys, like worker, clients ...backend.Backend) (workers []*worker) {
	if like.shares {
		clients = clients[:min(len(clients), max(2, h.t.h.Many/2))]
	}
	first := make(map[backend.Backend]int)
	for i, client := range clients {
		if _, ok := first[client]; !ok {
			first[client] = i
		}
		w := like
		w.h, w.id, w.client, w.keys, w.random = h, i, first[client], keys, h.random(i)
		w.actor, w.tries = clientActor{h.t, client}, i%2 == 1
		workers = append(workers, &w)
	}
	return workers
}

// run runs the workers and faults for d, and waits until they have ended.
func (h *history) run(d time.Duration, workers []*worker, faults []func(until time.Time)) {
	until := time.Now().Add(d)
	done := make(chan struct{})
	h.t.spawn(func() {
		defer close(done)
		h.t.together(len(workers)+len(faults), func(i int) {
			if i < len(workers) {
				workers[i].run(until)
			} else {
				faults[i-len(workers)](until)
			}
		})
	})
	// After d, every lease is released or expires, and every waiter has its turn.
	patience := time.Duration(len(workers)+1)*keeps(h.t.g, 2*h.t.short()) + h.t.handOff() + 2*recovery
	if !h.t.within(d+patience, done) {
		h.failf("a worker has not ended %v after the others: its request is not answered, or it waits for a free key",
			patience)
	}
	if h.t.ended() {
		runtime.Goexit()
	}
}

// drain waits until the keys are free, fails if that takes too long, and judges the history.
func (h *history) drain(keys workKeys) {
	const least = 4
	if n := h.grants(); n < least {
		h.t.tooLate("only %d leases were granted", n)
	}
	for i, key := range []string{keys.tried, keys.waited} {
		h.waitUntilFree(key, i)
	}
	h.judge()
}

// waitUntilFree acquires and releases the key. It retries until abandoned leases must have expired, and then fails.
func (h *history) waitUntilFree(key string, i int) {
	t := h.t
	w := &worker{h: h, id: 100 + i, client: wholeStore, actor: clientActor{t, t.a}, random: h.random(100 + i),
		faulty: true}
	latest := h.freeBy(key)
	for first := true; ; first = false {
		last := h.now() > latest+recovery
		begun := h.now()
		l, ok := w.acquire(backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long()})
		if ok {
			w.release(l)
			return
		}
		if begun > latest && !first {
			h.judge() // fails if nothing explains the refusal
		}
		if last {
			h.failf("a key is not free %v after everything on it must have ended", h.now()-latest)
		}
		time.Sleep(2 * tick)
	}
}
