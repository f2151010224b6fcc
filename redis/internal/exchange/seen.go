package exchange

// What follows is for tests of the stores.

// Gather keeps workers from opening, so that requests gather, until release is called. It is false while a worker is
// open or will be.
func (l *Batcher) Gather() (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open > 0 || l.armed {
		return nil, false
	}
	l.open, l.armed = UsualWorkers, true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open -= UsualWorkers
		l.armed = false
		l.openLocked()
	}, true
}

// Waiting is how many requests wait for a worker.
func (l *Batcher) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}
