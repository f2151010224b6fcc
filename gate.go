package lock

// leave ends the caller's turn at g: the next waiter may contend for the key. If nobody waits, g becomes idle. err is
// the error of the caller's attempt, if it failed.
func (l *Locker) leave(g *gate, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.reportLocked(err)
	g.inside.Store(nil)
	l.callNextLocked(g, nil)
}

// reportLocked records for each waiter at g that the key is busy, if err, the error of a request, reports that.
func (g *gate) reportLocked(err error) {
	busy := refusal(err)
	for e := g.waiters.Front(); e != nil && busy != nil; e = e.Next() {
		e.Value.(*waiter).busy = busy
	}
}

// moveToPrivate leaves g and returns a private gate for the lease instead. The caller chose the owner of the lease, so
// another process may end it. Other goroutines therefore request the key from the store instead of waiting for the
// local holder.
func (l *Locker) moveToPrivate(g *gate) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active++ // before the caller leaves g, so that Shutdown waits
	l.callNextLocked(g, nil)
	return &gate{key: g.key, private: true}
}

// callNextLocked gives the next waiter its turn, with the lease handed if that is not nil. If nobody waits, g becomes
// idle, or is no longer used if it is private.
func (l *Locker) callNextLocked(g *gate, handed *tenure) {
	if next := l.nextLocked(g); next != nil {
		g.waiters.Remove(next.place)
		next.turn <- handed
		return
	}
	if !g.private {
		if l.idle != nil {
			delete(l.gates, l.idle.key)
		}
		l.idle = g
	}
	l.active--
	l.drainLocked()
}

// nextLocked returns the next waiter at g, nil if there is none or the Locker grants nothing new.
func (l *Locker) nextLocked(g *gate) *waiter {
	if g.waiters.Len() == 0 || isClosed(l.stopping) {
		return nil
	}
	return g.waiters.Front().Value.(*waiter)
}

// stopGrants ends all waits. Nothing new is granted.
func (l *Locker) stopGrants() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	l.drainLocked()
}

// drainLocked closes drained if the Locker is closed, or is stopping and nobody holds or requests a key.
func (l *Locker) drainLocked() {
	if (l.closed.Load() || isClosed(l.stopping) && l.active == 0) && !isClosed(l.drained) {
		close(l.drained)
	}
}
