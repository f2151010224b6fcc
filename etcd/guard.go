package etcd

import (
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/alarm"
)

const (
	// guardAfter is how long a lock is held before its key is watched: most are released sooner.
	guardAfter = 100 * time.Millisecond
	// guardAgain spreads new watches after the stream broke.
	guardAgain = time.Second
	// looksAtOnce is how many keys one request looks for. Servers allow 128 operations.
	looksAtOnce = 64
)

// A guard watches the keys of locks that are held for more than a moment, and ends a lease at once whose key somebody
// has deleted. A renewal would not notice: it renews etcd's lease, which is still there.
type guard struct {
	b *Backend

	mu      sync.Mutex
	clock   alarm.Clock[*guarded] // of the watches to begin
	looks   []*guarded            // whose keys are to be looked for
	looking bool
	closed  bool
}

// A guarded is the guard's part of a lock. The guard's lock guards it.
type guarded struct {
	life  *backend.Life
	watch *watch
	round int   // how many watches there have been
	live  bool  // the last of them has not fired
	since int64 // the revision at which the key was certainly there
	place alarm.Entry[*guarded]
	over  bool
}

func newGuard(b *Backend) *guard {
	g := &guard{b: b}
	g.clock = alarm.New[*guarded](g.wake)
	return g
}

// watch begins to guard a lock that has just been granted.
func (g *guard) watch(l *backend.Life, h *held, since int64) {
	e := &h.guarded
	e.life, e.since, e.place.Item = l, since, e
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || e.over {
		return
	}
	g.clock.Set(&e.place, time.Now().Add(guardAfter))
	g.clock.Arm()
}

// forget ends it.
func (g *guard) forget(h *held) {
	e := &h.guarded
	g.mu.Lock()
	e.over = true
	g.clock.Remove(&e.place)
	w := e.watch
	e.watch = nil
	g.mu.Unlock()
	if w != nil {
		g.b.watches.stop(w)
	}
}

// wake begins the watches whose time has come.
func (g *guard) wake() {
	g.mu.Lock()
	g.clock.Woken()
	now := time.Now()
	var due []*guarded
	for e := g.clock.FirstDue(now); e != nil; e = g.clock.FirstDue(now) {
		g.clock.Remove(e)
		due = append(due, e.Item)
	}
	g.clock.Arm()
	g.mu.Unlock()
	for _, e := range due {
		g.begin(e)
	}
}

func (g *guard) begin(e *guarded) {
	g.mu.Lock()
	if e.over || g.closed {
		g.mu.Unlock()
		return
	}
	e.round++
	e.live = true
	round := e.round
	g.mu.Unlock()
	w := g.b.watches.add(e.life.Data.(*held).own, func(from int64) { g.began(e, from) }, func(int64) { g.ended(e, round) })
	g.mu.Lock()
	over := e.over
	if !over && e.live && e.round == round {
		e.watch = w
	}
	g.mu.Unlock()
	if over {
		g.b.watches.stop(w)
	} else if round == 1 {
		e.life.OnLost(func() { g.forget(e.life.Data.(*held)) })
	}
}

// began looks for the key if it may have been deleted before its watch began.
func (g *guard) began(e *guarded, from int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if from > e.since {
		g.lookLocked(e)
	}
}

// ended looks for the key, because its watch has fired.
func (g *guard) ended(e *guarded, round int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.round != round {
		return
	}
	e.live, e.watch = false, nil
	g.lookLocked(e)
}

func (g *guard) lookLocked(e *guarded) {
	if e.over || g.closed {
		return
	}
	g.looks = append(g.looks, e)
	if !g.looking {
		g.looking = g.b.calls.Background(g.look)
	}
}

// look looks for keys until none is left to look for.
func (g *guard) look() {
	for {
		g.mu.Lock()
		n := min(len(g.looks), looksAtOnce)
		some := g.looks[:n:n]
		g.looks = g.looks[n:]
		if n == 0 {
			g.looking, g.looks = false, nil
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.lookFor(some)
	}
}

func (g *guard) lookFor(some []*guarded) {
	ops := make([]clientv3.Op, len(some))
	for i, e := range some {
		ops[i] = clientv3.OpGet(e.life.Data.(*held).own.key, clientv3.WithKeysOnly())
	}
	resp, err := g.b.read(g.b.base, ops...)
	g.mu.Lock()
	var gone []*guarded
	for i, e := range some {
		switch {
		case e.over || g.closed:
		case err == nil && !e.life.Data.(*held).own.isThere(resp.Responses[i].GetResponseRange().Kvs):
			gone = append(gone, e)
		case err == nil:
			e.since = resp.Header.Revision
			fallthrough
		default: // not known: the lease's own deadline stands
			if !e.live {
				g.clock.Set(&e.place, time.Now().Add(guardAfter+rand.N(guardAgain)))
			}
		}
	}
	g.clock.Arm()
	g.mu.Unlock()
	for _, e := range gone {
		e.life.Lose()
	}
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.clock.Stop()
}
