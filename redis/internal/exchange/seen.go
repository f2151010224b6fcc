package exchange

// What follows is for tests of the stores.

// Gather keeps lanes from opening, so that requests gather, until release is called. It is false while a lane is open
// or will be.
func (l *Lanes) Gather() (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open > 0 || l.armed {
		return nil, false
	}
	l.open, l.armed = UsualLanes, true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open -= UsualLanes
		l.armed = false
		l.openLocked()
	}, true
}

// Waiting is how many requests wait for a lane.
func (l *Lanes) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}
