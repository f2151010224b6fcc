package exchange

// The functions below are for tests of the stores.

// Gather keeps workers from starting until release is called, so that requests gather in the queue. ok is false if a
// request is in progress.
func (l *Batcher) Gather() (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open > 0 {
		return nil, false
	}
	l.open = l.most
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open -= l.most
		l.openLocked()
	}, true
}

// Waiting returns how many requests wait for a worker.
func (l *Batcher) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}
