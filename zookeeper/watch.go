package zookeeper

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// watched is a node that this session watches: one watch at the server, however many watchers come and go. The library
// cannot take a watch back, so it stays until the node goes.
type watched struct {
	armed    bool
	watchers map[*watcher]struct{}
}

// A watcher is told once that something has happened. told must not block.
type watcher struct{ told func(gone bool) }

// fire tells all of them, once, and whether the node is gone.
func (w *watched) fire(gone bool) {
	for c := range w.watchers {
		c.told(gone)
	}
	w.watchers = nil
}

// watch has told called when the node at path changes or goes, or the session ends: with true if it is gone. A missing
// node is zk.ErrNoNode. Whoever is not interested any more calls stop.
func (s *session) watch(ctx context.Context, path string, told func(gone bool)) (stop func(), err error) {
	c := &watcher{told}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return nil, s.reason()
	}
	w := s.watches[path]
	if w == nil {
		w = &watched{watchers: make(map[*watcher]struct{})}
		s.watches[path] = w
	}
	w.watchers[c] = struct{}{}
	armed := w.armed
	s.mu.Unlock()
	stop = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(w.watchers, c)
		if len(w.watchers) == 0 && !w.armed && s.watches[path] == w { // nobody needs it, and the server has no watch
			delete(s.watches, path)
		}
	}
	if !armed {
		if err = s.arm(ctx, path, w); err != nil {
			stop()
		}
	}
	return stop, err
}

// arm sets the watch at the server.
func (s *session) arm(ctx context.Context, path string, w *watched) error {
	_, _, err := await(ctx, s, request[struct{}]{do: func(conn *zk.Conn) (struct{}, error) {
		// Not ExistsW, which leaves a watch on a node that is missing.
		_, _, _, err := conn.GetW(path)
		return struct{}{}, err
	}})
	if err != nil {
		return err
	}
	s.mu.Lock()
	w.armed = s.watches[path] == w
	s.mu.Unlock()
	return nil
}

// fire tells the watchers of path that something has happened: that its node is gone for good, or something else.
func (s *session) fire(path string, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[path]; w != nil {
		delete(s.watches, path)
		w.fire(gone)
	}
}
