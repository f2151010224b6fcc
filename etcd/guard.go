package etcd

import (
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend/kit"
)

const (
	// guardAfter is the delay before a held lock's key is watched. Most locks are released sooner.
	guardAfter = 100 * time.Millisecond
	// readsAtOnce is how many keys one request reads. Servers allow 128 operations.
	readsAtOnce = 64
)

// A guard watches the keys of held locks. If somebody deletes a key, the guard reports the loss of the lock at once. If
// another client binds a key to a lease of its own, the guard notes the write, so that the next renewal binds the key
// to a lease of this client. A renewal would detect neither, because the etcd lease still exists.
type guard struct {
	b *Backend

	mu          sync.Mutex
	unread      backlog[*guarded]  // locks whose keys may have been deleted without an event
	revocations backlog[*boundKey] // locks whose leases must be revoked
	rebound     backlog[*boundKey] // locks whose keys another client may have bound to its lease
}

// A guarded is the guard's state of a lock. guard.mu guards it.
type guarded struct {
	life    *kit.Life
	timer   *time.Timer // starts the watch; after a failed read, starts the next read
	watch   *watch      // nil before the watch begins
	since   int64       // the latest revision at which the key is known to have existed
	stopped bool
}

func newGuard(b *Backend) *guard {
	g := &guard{b: b}
	g.unread = backlog[*guarded]{leases: b.leases, process: g.read}
	g.revocations = backlog[*boundKey]{leases: b.leases, process: g.dropLeases}
	g.rebound = backlog[*boundKey]{leases: b.leases, process: g.rebind}
	return g
}

// start starts guarding a lock that has just been granted.
func (g *guard) start(l *kit.Life, k *boundKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := &k.guarded
	e.life, e.since = l, k.modified
	e.timer = time.AfterFunc(guardAfter, func() { g.watch(k) })
}

// stop stops guarding a lock.
func (g *guard) stop(k *boundKey) {
	e := &k.guarded
	g.mu.Lock()
	e.stopped = true
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

func (g *guard) watch(k *boundKey) {
	if g.b.leases.Closed() {
		return
	}
	e := &k.guarded
	w := g.b.watches.add(&watch{contender: k.contender,
		created: func(from int64) { g.readIfMissed(e, from) },
		written: func(at int64) { g.noteWrite(k, at) },
		deleted: func(int64) { g.reportLoss(e.life) },
	})
	g.mu.Lock()
	e.watch = w
	stopped := e.stopped
	g.mu.Unlock()
	if stopped {
		g.b.watches.stop(w)
		return
	}
	e.life.OnLost(func() { g.stop(k) })
}

// readIfMissed reads a key in the background if the key may have been deleted before its watch began. from is the
// revision at which the watch began, 0 if unknown.
func (g *guard) readIfMissed(e *guarded, from int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !e.stopped && (from == 0 || from > e.since) {
		g.unread.add(e)
	}
}

func (g *guard) read(list []*guarded) {
	for some := range slices.Chunk(list, readsAtOnce) {
		keys := make([]contender, len(some))
		for i, e := range some {
			keys[i] = e.life.Data.(*boundKey).contender
		}
		writes, at, err := g.b.lastWrites(g.b.leases.Base(), 0, keys...)
		if err != nil {
			if len(some) > 1 && !mayHaveRun(err) { // the server allows fewer operations
				for i := range some {
					g.read(some[i : i+1])
				}
			} else {
				g.readAgain(some)
			}
			continue
		}
		for i, e := range some {
			if writes[i] == 0 {
				g.reportLoss(e.life)
			} else {
				g.noteWrite(e.life.Data.(*boundKey), writes[i])
			}
		}
		g.mu.Lock()
		for _, e := range some {
			e.since = at
		}
		g.mu.Unlock()
	}
}

// readAgain repeats a failed read after a while. Nothing else would detect that a key is deleted: its watch may have
// begun too late, and renewals of the lease succeed.
func (g *guard) readAgain(list []*guarded) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range list {
		if !e.stopped {
			e.timer.Stop() // one timer, however often the stream breaks
			e.timer = time.AfterFunc(recheck, func() { g.readIfMissed(e, 0) })
		}
	}
}

// reportLoss ends a lock whose key was deleted. It also revokes the lock's etcd leases, which would otherwise live for
// their TTL. It revokes them in the background, because a move or a release may be under way.
func (g *guard) reportLoss(l *kit.Life) {
	l.Lose()
	g.revocations.add(l.Data.(*boundKey))
}

func (g *guard) dropLeases(list []*boundKey) {
	for _, k := range list {
		k.mu.Lock()
		g.b.dropLeases(k)
		k.mu.Unlock()
	}
}

// noteWrite records that a client has written the key of k at a revision.
func (g *guard) noteWrite(k *boundKey, at int64) {
	k.noteWrite(at)
	if k.isRebound() {
		g.rebound.add(k)
	}
}

// rebind renews locks whose last renewal came after another client had bound the key to its lease: it extended an etcd
// lease without a key. The renewal binds the key to a lease of this client. Locks without such a renewal are left
// alone, because the other client may have shortened the TTL.
func (g *guard) rebind(list []*boundKey) {
	for _, k := range list {
		k.mu.Lock()
		l, at := k.lease, k.written.Load()
		due := l != nil && at > k.modified && g.b.pool.wasRenewedAfter(l, at)
		k.mu.Unlock()
		if !due {
			continue
		}
		g.mu.Lock()
		life := k.guarded.life
		g.mu.Unlock()
		_ = life.Renew(g.b.leases.Base(), l.lockTTL) // otherwise the next renewal binds the key
	}
}
