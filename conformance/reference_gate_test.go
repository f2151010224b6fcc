package conformance_test

// A gate is a readers-writer lock made of channels. In a bubble of testing/synctest, a goroutine that waits for a gate
// is durably blocked. A goroutine that waits for a sync.RWMutex is not.
type gate struct {
	readers chan struct{} // holds a value for each reader
	writer  chan struct{}
}

func newGate() gate {
	const most = 128 // further readers wait
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
