package conformance

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"
	"weak"

	"github.com/anylock/lock/backend"
)

// Checks on what clients and stores remember about leases that have ended.
var lastingChecks = []Check{
	{
		Name: "ClientForgetsEndedLeases",
		Rule: "rule 10: a client keeps neither memory nor goroutines for leases that were released, broken or resumed or " +
			"have expired, renewals, refused attempts and waits, granted or cancelled: of 20,000 released leases, or as many " +
			"as a slow store grants in a second",
		run: clientForgetsEndedLeases,
	},
	{
		Name: "StoreForgetsEndedLeases",
		Rule: "rule 10: a store keeps no record for each lease that was released, broken or resumed or has expired, " +
			"renewal, refused attempt, granted or cancelled wait, closed client or inspected key: of 20,000 released leases, " +
			"or as many as a slow store grants in a second",
		Needs: []Need{needsFootprint},
		alone: true,
		run:   storeForgetsEndedLeases,
	},
}

const (
	endingBudget = time.Second // for each way to end
	endingGroup  = 8           // attempts that end together
)

// A wayToEnd ends leases or attempts of one kind. end returns how many it has ended.
type wayToEnd struct {
	what string
	most int // limit on a fast store
	end  func(e *endings, worker int) int
	can  func(e *endings) bool // nil if every store supports it
}

var waysToEnd = []wayToEnd{
	{"released leases", 20000, (*endings).released, nil},
	{"renewals, with calls of Inspect and List between them", 2000, (*endings).renewed, nil},
	{"calls of Inspect for unused keys", 2000, (*endings).inspected, nil},
	{"refused attempts", 2000, (*endings).refused, nil},
	{"granted waits", 800, (*endings).waited, nil},
	{"cancelled waits", 500, (*endings).cancelled, nil},
	{"cancelled waits of readers", 500, (*endings).cancelledReaders, func(e *endings) bool { return e.g.Shared }},
	{"expired leases", 500, (*endings).expired, nil},
	{"broken leases, half of them renewed then, and as many Breaks of nobody's", 1200, (*endings).broken,
		func(e *endings) bool { _, ok := e.b.(backend.Breaker); return ok }},
	{"resumed leases, and as many Resumes of nobody's", 200, (*endings).resumed,
		func(e *endings) bool { _, ok := e.b.(backend.Resumer); return ok }},
	{"closed clients", 80, (*endings).closed, func(e *endings) bool { return e.alone }}, // servers limit connections
}

// endings ends leases and attempts of client a in many ways, on a few keys per worker.
type endings struct {
	*trial
	workers int
	keys    [][endingGroup]string  // by worker
	owners  [][]weak.Pointer[byte] // owner names, by worker: whoever remembers a lease keeps its owner's name in memory
	modes   []int                  // number of calls of shared, by worker
}

func (t *trial) newEndings() *endings {
	const most, more = 8, 2 // workers; leases per worker besides those of a group
	if t.h.Many < endingGroup+more {
		t.skipf("too few leases (Harness.Many) to measure")
	}
	e := &endings{trial: t, workers: min(most, t.h.Many/(endingGroup+more))}
	e.keys, e.owners = make([][endingGroup]string, e.workers), make([][]weak.Pointer[byte], e.workers)
	e.modes = make([]int, e.workers)
	for w := range e.workers {
		for i := range endingGroup {
			e.keys[w][i] = t.newKey()
		}
	}
	for _, way := range e.ways() { // so that one-time setup is not counted below
		e.make(way, 1)
	}
	return e
}

// ways returns the ways to end that the store supports.
func (e *endings) ways() (ways []wayToEnd) {
	for _, way := range waysToEnd {
		if way.can == nil || way.can(e) {
			ways = append(ways, way)
		}
	}
	return ways
}

// most returns how many leases or attempts to end in that way on a fast store.
func (e *endings) most(way wayToEnd) int {
	if e.shortMode {
		return min(way.most, 5000)
	}
	return way.most
}

// make ends up to n leases or attempts in that way, as many as endingBudget allows, and returns how many it has ended.
func (e *endings) make(way wayToEnd, n int) int {
	ended, end := make([]int, e.workers), time.Now().Add(endingBudget)
	e.together(e.workers, func(w int) {
		e.owners[w] = nil
		for ended[w] == 0 || ended[w] < n/e.workers && time.Now().Before(end) {
			ended[w] += way.end(e, w)
		}
	})
	all := 0
	for _, n := range ended {
		all += n
	}
	return all
}

// owner returns a new owner name whose memory is tracked.
func (e *endings) owner(worker int) string {
	name := string(append([]byte("owner-"), backend.NewOwner()...)) // an allocation of its own
	e.owners[worker] = append(e.owners[worker], weak.Make(unsafe.StringData(name)))
	return name
}

// kept returns how many owner names are still in memory.
func (e *endings) kept() (n int) {
	runtime.GC()
	for _, owners := range e.owners {
		for _, o := range owners {
			if o.Value() != nil {
				n++
			}
		}
	}
	return n
}

// shared returns the mode of the next leases or attempts: every other one is shared, if the store has shared leases.
func (e *endings) shared(worker int) bool {
	e.modes[worker]++
	return e.g.Shared && e.modes[worker]%2 == 0
}

// ending is lease for a lease of client a, shared or not.
func (e *endings) ending(worker int, owner, key string, ttl time.Duration) backend.Lease {
	return e.acquires(e.a, backend.Request{Key: key, Owner: owner, TTL: ttl, Wait: true, Shared: e.shared(worker)})
}

// lease acquires a key that is free or becomes free soon. The end of an earlier lease or wait may not have reached the
// store yet.
func (e *endings) lease(b backend.Backend, owner, key string, ttl time.Duration) backend.Lease {
	return e.acquires(b, backend.Request{Key: key, Owner: owner, TTL: ttl, Wait: true})
}

func (e *endings) acquires(b backend.Backend, r backend.Request) backend.Lease {
	begun := time.Now()
	l, err := b.Acquire(e.ctx, r)
	if err != nil {
		e.lateOnTimeout(err, begun)
		e.tooLate("Acquire of a key that is or becomes free: %v", err)
	}
	return l
}

// busy makes the other client hold a key until the returned function is called.
func (e *endings) busy(worker int) (key string, release func()) {
	key = e.keys[worker][0]
	l := e.lease(e.b, backend.NewOwner(), key, e.long())
	return key, func() { e.mustRelease(l) }
}

func (e *endings) mustRelease(l backend.Lease) {
	if err := l.Release(e.ctx); err != nil {
		e.tooLate("Release: %v", err)
	}
}

func (e *endings) released(worker int) int {
	e.mustRelease(e.ending(worker, e.owner(worker), e.keys[worker][0], e.long()))
	return 1
}

// renewed renews a lease several times, alone and in batches, inspects and lists it, and releases it.
func (e *endings) renewed(worker int) int {
	key := e.keys[worker][0]
	l := e.ending(worker, e.owner(worker), key, e.long())
	g, ways := &grant{Lease: l, client: e.a}, e.renewals()
	for i := range endingGroup {
		if err := ways[i%len(ways)].renew(e.ctx, g, e.long()); err != nil {
			e.tooLate("%s: %v", ways[i%len(ways)].what, err)
		}
	}
	for range endingGroup / 4 {
		_, _ = e.a.Inspect(e.ctx, key) // other checks test the results
		if lister, ok := e.a.(backend.Lister); ok {
			_, _ = lister.List(e.ctx, key)
		}
	}
	e.mustRelease(l)
	return endingGroup
}

// inspected inspects keys that nobody has used.
func (e *endings) inspected(int) int {
	for range endingGroup {
		_, _ = e.a.Inspect(e.ctx, e.newKey()) // other checks test the results
	}
	return endingGroup
}

func (e *endings) refused(worker int) int {
	key, release := e.busy(worker)
	shared := e.shared(worker)
	for range endingGroup {
		l, err := e.a.Acquire(e.ctx, backend.Request{Key: key, Owner: e.owner(worker), TTL: e.long(), Shared: shared})
		if err == nil {
			_ = l.Release(e.ctx)
			e.tooLate("the key was not held any more")
		}
	}
	release()
	return endingGroup
}

// waited queues waiters, shared or not, each of which is granted the key and releases it.
func (e *endings) waited(worker int) int {
	key, release := e.busy(worker)
	shared := e.shared(worker)
	var waits sync.WaitGroup
	for range endingGroup {
		r := backend.Request{Key: key, Owner: e.owner(worker), TTL: e.long(), Wait: true, Shared: shared}
		waits.Go(func() {
			if l, err := e.a.Acquire(e.ctx, r); err == nil { // other checks test the result
				_ = l.Release(e.ctx)
			}
		})
	}
	e.arrived(key, endingGroup)
	release()
	waits.Wait()
	return endingGroup
}

func (e *endings) cancelled(worker int) int { return e.cancelledWaits(worker, false) }

func (e *endings) cancelledReaders(worker int) int { return e.cancelledWaits(worker, true) }

func (e *endings) cancelledWaits(worker int, shared bool) int {
	key, release := e.busy(worker)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var waits sync.WaitGroup
	for range endingGroup {
		r := backend.Request{Key: key, Owner: e.owner(worker), TTL: e.long(), Wait: true, Shared: shared}
		waits.Go(func() {
			if l, err := e.a.Acquire(ctx, r); err == nil {
				_ = l.Release(e.ctx)
			}
		})
	}
	e.arrived(key, endingGroup)
	cancel()
	waits.Wait()
	release()
	return endingGroup
}

func (e *endings) expired(worker int) int {
	var leases [endingGroup]backend.Lease
	for i, key := range e.keys[worker] {
		leases[i] = e.ending(worker, e.owner(worker), key, e.short())
	}
	for _, l := range leases {
		e.within(e.g.Round(e.short())+soon, l.Lost())
	}
	return endingGroup
}

// broken makes the other client call Break, first for an owner that holds nothing, then for the holder. Half of the
// holders find out by a renewal.
func (e *endings) broken(worker int) int {
	key, owner, breaker := e.keys[worker][0], e.owner(worker), e.b.(backend.Breaker)
	l := e.ending(worker, owner, key, e.long())
	for _, owner := range []string{backend.NewOwner(), owner} {
		_ = breaker.Break(e.ctx, key, owner) // other checks test the result
	}
	if e.modes[worker]/2%2 == 0 {
		_ = l.Renew(e.ctx, e.long())
	}
	_ = l.Release(e.ctx)
	return 1
}

// resumed makes the other client call Resume, first for an owner that holds nothing, then for the holder.
func (e *endings) resumed(worker int) int {
	key, owner, resumer := e.keys[worker][0], e.owner(worker), e.b.(backend.Resumer)
	shared := e.shared(worker)
	l := e.acquires(e.a, backend.Request{Key: key, Owner: owner, TTL: e.long(), Wait: true, Shared: shared})
	for _, owner := range []string{backend.NewOwner(), owner} {
		again, err := resumer.Resume(e.ctx, backend.Request{Key: key, Owner: owner, TTL: e.long(), Shared: shared})
		if err == nil {
			_ = again.Release(e.ctx)
		}
	}
	_ = l.Release(e.ctx)
	return 1
}

// closed opens a client, which acquires and releases a key, waits for another one in vain, and is closed.
func (e *endings) closed(worker int) int {
	key, release := e.busy(worker)
	c := e.open()
	e.mustRelease(e.lease(c, e.owner(worker), e.keys[worker][1], e.long()))
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() {
		r := backend.Request{Key: key, Owner: e.owner(worker), TTL: e.long(), Wait: true}
		if l, err := c.Acquire(ctx, r); err == nil {
			_ = l.Release(e.ctx)
		}
	})
	e.arrived(key, 1)
	cancel()
	wait.Wait()
	e.closes(c)
	release()
	return 1
}

func clientForgetsEndedLeases(t *trial) {
	const perKey = 4 // owners that a store in the same process may remember
	e := t.newEndings()
	before := goroutines(t.label)
	for _, way := range e.ways() {
		n := e.make(way, e.most(way))
		most, kept := max(perKey*endingGroup*e.workers, n/8), 0
		end := time.Now().Add(recovery)
		for pause := tick; ; pause *= 2 { // cleanup may still run; longer pauses, because each count collects garbage
			if kept = e.kept(); kept <= most || time.Now().After(end) {
				break
			}
			time.Sleep(pause)
		}
		if kept > most {
			t.breaks(10, "the client keeps %d owners of %d %s", kept, n, way.what)
		}
		const grown = 32 // goroutines of a connection pool
		t.waitForGoroutines(before+grown, fmt.Sprintf("after %d %s", n, way.what))
		t.notef("%d %s", n, way.what)
	}
}

func storeForgetsEndedLeases(t *trial) {
	e := t.newEndings()
	for _, way := range e.ways() {
		before := t.footprint()
		n := e.make(way, e.most(way))
		most, now := before+int64(max(2*endingGroup, n/4)), before
		if !t.poll(recovery+t.g.Round(t.short())+t.g.MaxLate, func() bool { now = t.footprint(); return now <= most }) {
			t.breaks(10, "the store keeps %d records more after %d %s", now-before, n, way.what)
		}
		t.notef("%d %s: %d records before, %d after", n, way.what, before, now)
	}
}

// footprint returns how many records the store keeps.
func (t *trial) footprint() int64 {
	n, err := t.h.Footprint()
	if err != nil {
		t.fatalf("Footprint: %v", err)
	}
	return n
}
