package lock

// Kept is how many gates with someone inside, and renewals, l has.
func (l *Locker) Kept() (gates, renewals int) {
	l.mu.Lock()
	gates = l.busyLocked()
	l.mu.Unlock()
	l.renewals.mu.Lock()
	defer l.renewals.mu.Unlock()
	return gates, l.renewals.clock.Len()
}

// DerivedContexts is the number of contexts that a lease will cancel.
func DerivedContexts(l *Lease) int {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	return len(l.tenure.derived)
}
