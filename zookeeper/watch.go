package zookeeper

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// watched is a node that waiters of this session watch: one watch at the server, however many come and go. The library
// cannot take a watch back, so it stays until the node goes.
type watched struct {
	armed bool
	subs  map[chan bool]struct{}
	own   *node // of a lease of this session; nil for those of others
}

// fire wakes all of them, once, and tells whether the node is gone.
func (w *watched) fire(gone bool) {
	for c := range w.subs {
		c <- gone
	}
	w.subs = nil
}

// watch returns a channel that is sent to when the node at path changes or goes, or the session ends: true if it is gone. A missing
// node is zk.ErrNoNode. Call stop in the end.
func (s *session) watch(ctx context.Context, path string) (fired <-chan bool, stop func(), err error) {
	c := make(chan bool, 1)
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return nil, nil, s.reason()
	}
	w := s.watchedLocked(path)
	w.subs[c] = struct{}{}
	armed := w.armed
	s.mu.Unlock()
	stop = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(w.subs, c)
		s.dropLocked(path, w)
	}
	if armed {
		return c, stop, nil
	}
	if err = s.arm(ctx, path, w); err != nil {
		stop()
		return nil, nil, err
	}
	return c, stop, nil
}

// watchedLocked returns what is watched at path. The caller holds s.mu.
func (s *session) watchedLocked(path string) *watched {
	w := s.watches[path]
	if w == nil {
		w = &watched{subs: make(map[chan bool]struct{})}
		s.watches[path] = w
	}
	return w
}

// dropLocked forgets w if nobody needs it, and there is no watch at the server. The caller holds s.mu.
func (s *session) dropLocked(path string, w *watched) {
	if len(w.subs) == 0 && w.own == nil && !w.armed && s.watches[path] == w {
		delete(s.watches, path)
	}
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
		if w.own != nil {
			s.watchNow(w.own) // something that its holder may not know: look what
		}
	}
}
