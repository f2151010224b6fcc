package lock

// Kept returns how many gates somebody is inside of, and how many renewals are scheduled.
func (l *Locker) Kept() (gates, renewals int) {
	l.mu.Lock()
	gates = l.active
	l.mu.Unlock()
	l.renewals.mu.Lock()
	defer l.renewals.mu.Unlock()
	return gates, l.renewals.clock.Len()
}

// DerivedContexts returns the number of contexts that the end of a lease will cancel.
func DerivedContexts(l *Lease) int {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	return len(l.tenure.derived)
}
