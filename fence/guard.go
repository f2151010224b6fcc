package fence

import "sync"

// A Guard protects one resource inside this process, such as a file or a device that only this process writes to. The
// token is lost when the process ends. The zero Guard has seen no token. Its methods are safe for concurrent use.
type Guard struct {
	mu   sync.Mutex
	seen uint64
}

// Do calls write unless a higher token has been seen. It calls one write at a time, and returns what write returns. The
// token counts as seen even if write fails, because it may have written in part. write must not call Do of the same
// Guard.
func (g *Guard) Do(token uint64, write func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := Compare("", token, g.seen); err != nil {
		return err
	}
	g.seen = token
	return write()
}
