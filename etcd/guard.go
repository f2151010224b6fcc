package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// guardAfter is the delay before a held lock's key is watched. Most locks are released sooner.
const guardAfter = 100 * time.Millisecond

// A guard watches the keys of held locks. If somebody deletes a key, the guard reports the loss of the lock at once. If
// another client binds a key to a lease of its own, the guard notes the write, so that the next renewal binds the key
// to a lease of this client. A renewal would detect neither, because the etcd lease still exists.
type guard struct {
	b *Backend

	mu     sync.Mutex
	unread backlog[*boundKey] // keys that may have been deleted without an event
}

// A guardState is the guard's state of a lock. guard.mu guards it.
type guardState struct {
	life    *kit.Life   // set by start, and never changed
	timer   *time.Timer // starts the watch
	watch   *watch      // nil before the watch begins
	unread  bool        // the key is in guard.unread
	stopped bool
}

func newGuard(b *Backend) *guard {
	g := &guard{b: b}
	g.unread = backlog[*boundKey]{leases: b.leases, process: g.read}
	return g
}

// start starts guarding a lock that has just been granted.
func (g *guard) start(l *kit.Life, k *boundKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k.guarded.life = l
	k.guarded.timer = time.AfterFunc(guardAfter, func() { g.watch(k) })
}

// stop stops guarding a lock.
func (g *guard) stop(k *boundKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := &k.guarded
	e.stopped = true
	if e.timer != nil {
		e.timer.Stop()
	}
	if e.watch != nil {
		g.b.watches.stop(e.watch)
	}
}

func (g *guard) watch(k *boundKey) {
	k.guarded.life.OnLost(func() { g.stop(k) })
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.guarded.stopped {
		return
	}
	k.guarded.watch = g.b.watches.add(&watch{contender: k.contender,
		created: func(int64) { g.readSoon(k) },
		written: func(at int64) { g.noteWrite(k, at) },
		deleted: func(int64) { g.reportLoss(k) },
	})
}

// readSoon reads a key in the background. The key may have been deleted before its watch began.
func (g *guard) readSoon(k *boundKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := &k.guarded; !e.stopped && !e.unread {
		e.unread = true // the stream may break often while the servers answer no read
		g.unread.add(k)
	}
}

// read reads keys. It repeats failed reads after a while. Nothing else would detect that a key is deleted: its watch
// may have begun too late, and renewals of the lease succeed.
func (g *guard) read(list []*boundKey) {
	g.mu.Lock()
	for _, k := range list {
		k.guarded.unread = false
	}
	g.mu.Unlock()
	var failed []*boundKey
	for some := range slices.Chunk(list, keysPerRequest) {
		failed = append(failed, g.readSome(some)...)
	}
	if len(failed) > 0 {
		time.AfterFunc(recheck, func() {
			for _, k := range failed {
				g.readSoon(k)
			}
		})
	}
}

// readSome reads keys, and returns those that it could not read.
func (g *guard) readSome(some []*boundKey) (failed []*boundKey) {
	keys := make([]contender, len(some))
	for i, k := range some {
		keys[i] = k.contender
	}
	writes, err := g.b.lastWrites(g.b.leases.Base(), 0, keys...)
	switch {
	case err != nil && len(some) > 1 && !mayHaveRun(err): // the server allows fewer operations
		for i := range some {
			failed = append(failed, g.readSome(some[i:i+1])...)
		}
		return failed
	case err != nil:
		return some
	}
	for i, k := range some {
		if writes[i] == 0 {
			g.reportLoss(k)
		} else {
			g.noteWrite(k, writes[i])
		}
	}
	return nil
}

// reportLoss ends a lock whose key was deleted. It also revokes the lock's etcd leases, which would otherwise live for
// their TTL. It revokes them in the background, because a move or a release may be under way.
func (g *guard) reportLoss(k *boundKey) {
	k.guarded.life.Lose()
	g.b.leases.Go(func(context.Context) {
		k.mu.Lock()
		defer k.mu.Unlock()
		g.b.dropLeases(k)
	})
}

// noteWrite records that a client has written the key of k at a revision.
func (g *guard) noteWrite(k *boundKey, at int64) {
	g.mu.Lock()
	k.written.Store(max(k.written.Load(), at))
	g.mu.Unlock()
	if k.isRebound() {
		g.b.leases.Go(func(ctx context.Context) { g.rebind(ctx, k) })
	}
}

// rebind renews a lock if another client had bound the key to its own lease before the last renewal, which therefore
// extended an etcd lease without a key. The new renewal binds the key to a lease of this client. rebind does nothing if
// there was no renewal since, because the other client may have shortened the TTL.
func (g *guard) rebind(ctx context.Context, k *boundKey) {
	k.mu.Lock()
	l, at := k.lease, k.written.Load()
	due := l != nil && at > k.modified && g.b.pool.state(l).renewedAt >= at
	k.mu.Unlock()
	if due {
		_ = k.guarded.life.Renew(ctx, l.lockTTL) // otherwise the next renewal binds the key
	}
}
