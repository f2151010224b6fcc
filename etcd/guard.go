package etcd

import (
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend/kit"
)

const (
	// guardAfter is how long a lock is held before its key is watched: most are released sooner.
	guardAfter = 100 * time.Millisecond
	// looksAtOnce is how many keys one request looks for. Servers allow 128 operations.
	looksAtOnce = 64
)

// A guard watches the keys of locks that are held for more than a moment, and ends a lease at once whose key somebody
// has deleted. A renewal would not notice: it renews etcd's lease, which is still there.
type guard struct {
	b *Backend

	mu    sync.Mutex
	looks backlog[*guarded] // whose keys are to be looked for
	gone  backlog[*held]    // whose keys are gone
}

func newGuard(b *Backend) *guard {
	g := &guard{b: b}
	g.looks = backlog[*guarded]{calls: &b.calls, work: g.lookFor}
	g.gone = backlog[*held]{calls: &b.calls, work: g.drop}
	return g
}

// A guarded is the guard's part of a lock. The guard's lock guards it.
type guarded struct {
	life  *kit.Life
	timer *time.Timer // to the beginning of the watch; later to another look, if one has failed
	watch *watch      // nil until it begins
	since int64       // the revision at which the key was certainly there
	over  bool
}

// watch begins to guard a lock that has just been granted.
func (g *guard) watch(l *kit.Life, h *held, since int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := &h.guarded
	e.life, e.since = l, since
	e.timer = time.AfterFunc(guardAfter, func() { g.begin(h) })
}

// forget ends it.
func (g *guard) forget(h *held) {
	e := &h.guarded
	g.mu.Lock()
	e.over = true
	if e.timer != nil {
		e.timer.Stop()
	}
	w := e.watch
	e.watch = nil
	g.mu.Unlock()
	if w != nil {
		g.b.watches.stop(w)
	}
}

// begin watches the key.
func (g *guard) begin(h *held) {
	if g.b.isClosing() {
		return
	}
	e := &h.guarded
	w := g.b.watches.add(h.own, func(from int64) { g.look(e, from) }, func(int64) { g.lose(e.life) })
	g.mu.Lock()
	e.watch = w
	over := e.over
	g.mu.Unlock()
	if over {
		g.b.watches.stop(w)
		return
	}
	e.life.OnLost(func() { g.forget(h) })
}

// look looks for a key, in the background, if it may have been deleted at a revision that its watch does not tell of.
func (g *guard) look(e *guarded, from int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !e.over && (from == 0 || from > e.since) {
		g.looks.add(e)
	}
}

func (g *guard) lookFor(list []*guarded) {
	for some := range slices.Chunk(list, looksAtOnce) {
		keys := make([]contender, len(some))
		for i, e := range some {
			keys[i] = e.life.Data.(*held).own
		}
		there, at, err := g.b.areThere(g.b.base, 0, keys...)
		if err != nil {
			if len(some) > 1 && !uncertain(err) { // the server allows fewer operations
				for i := range some {
					g.lookFor(some[i : i+1])
				}
			} else {
				g.lookAgain(some)
			}
			continue
		}
		for i, e := range some {
			if !there[i] {
				g.lose(e.life)
			}
		}
		g.mu.Lock()
		for _, e := range some {
			e.since = at
		}
		g.mu.Unlock()
	}
}

// lookAgain looks for keys once more in a while. Nothing else would tell that they are gone: the watches have begun too late for that, and
// renewals, which are of the leases, succeed.
func (g *guard) lookAgain(list []*guarded) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range list {
		if !e.over {
			e.timer.Stop() // there is one, however often the stream breaks
			e.timer = time.AfterFunc(recheck, func() { g.look(e, 0) })
		}
	}
}

// lose ends a lease whose key is gone. Those of etcd's would live on for its TTL: they are let go in the background, as a change or a
// release may be under way.
func (g *guard) lose(l *kit.Life) {
	l.Lose()
	g.gone.add(l.Data.(*held))
}

func (g *guard) drop(list []*held) {
	for _, h := range list {
		h.mu.Lock()
		g.b.dropHeld(h)
		h.mu.Unlock()
	}
}
