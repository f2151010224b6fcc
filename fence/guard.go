package fence

import "sync"

// A Guard protects one resource inside this process, such as a file or a device that only this process writes to. The
// tokens are lost when the process ends. The zero Guard has seen no token. Its methods are safe for concurrent use.
type Guard struct {
	access sync.RWMutex // write-locked for each write, read-locked for each read

	exclusive uint64 // highest token of a write; changes only while access is write-locked

	mu     sync.Mutex // guards shared while access is read-locked
	shared uint64     // highest token of a read
}

// Do calls write unless a higher token has been seen, exclusive or shared, and returns the error of write. Only one
// write runs at a time, and no read beside it. The token counts as seen even if write fails, because write may have
// changed something. write must not call Do or DoShared of the same Guard.
func (g *Guard) Do(token uint64, write func() error) error {
	g.access.Lock()
	defer g.access.Unlock()
	if err := Compare("", token, max(g.exclusive, g.shared)); err != nil {
		return err
	}
	g.exclusive = token
	return write()
}

// DoShared is like Do for the token of a shared lease: it refuses the token only if a higher exclusive one has been
// seen. Several reads may run at once. read must not call Do or DoShared of the same Guard.
func (g *Guard) DoShared(token uint64, read func() error) error {
	g.access.RLock()
	defer g.access.RUnlock()
	if err := g.seeShared(token); err != nil {
		return err
	}
	return read()
}

func (g *Guard) seeShared(token uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := Compare("", token, g.exclusive); err != nil {
		return err
	}
	g.shared = max(g.shared, token)
	return nil
}
