package conformance_test

// A gate is a readers-writer lock made of channels: a goroutine that waits for it is durably blocked in a bubble of
// testing/synctest, as one that waits for a sync.RWMutex is not.
type gate struct {
	readers chan struct{} // a place for each
	writer  chan struct{}
}

func newGate() gate {
	const most = 128 // more readers at once wait for each other
	return gate{make(chan struct{}, most), make(chan struct{}, 1)}
}

func (g gate) RLock()   { g.readers <- struct{}{} }
func (g gate) RUnlock() { <-g.readers }

func (g gate) Lock() {
	g.writer <- struct{}{}
	for range cap(g.readers) {
		g.RLock()
	}
}

func (g gate) Unlock() {
	for range cap(g.readers) {
		g.RUnlock()
	}
	<-g.writer
}
