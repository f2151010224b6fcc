package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend/kit"
)

// recheck is the shortest interval at which a waiter checks the queue without a notification, because notifications are
// hints. The longest is twice that.
const recheck = 5 * time.Second

// wait returns when the nearest conflicting node in front changes or is deleted, or when it is time to check the queue
// in any case. If the node was deleted and was the only conflicting node in front of n, then n is first. A move to
// another session is no deletion here, because it changes the node before it deletes the node.
func (a *attempt) wait(ctx context.Context) error {
	changed := make(chan bool, 1) // notify is called once
	front := a.ahead[len(a.ahead)-1]
	stop, err := a.s.watch(ctx, a.dir+"/"+front.name, func(deleted bool) { changed <- deleted })
	switch {
	case errors.Is(err, zk.ErrNoNode): // deleted before the watch was set
		a.frontChanged(true)
		return nil
	case err != nil:
		return unavailable(ctx, err)
	}
	defer stop()
	select {
	case deleted := <-changed:
		a.frontChanged(deleted)
		return nil
	case <-time.After(recheck + rand.N(recheck)):
		return nil
	case <-a.s.ended:
		return unavailable(ctx, a.s.endReason())
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	}
}

// frontChanged records that the nearest conflicting node was deleted, or was changed.
func (a *attempt) frontChanged(deleted bool) {
	a.first = deleted && a.n != nil && a.n.isOrdered() && len(a.ahead) == 1
}

// A watch is one watch at the server on a node, shared by all watchers of a session. It remains until the node changes,
// because the library cannot remove a watch.
type watch struct {
	armed    bool // the server has the watch
	watchers map[*watcher]struct{}
}

// A watcher is notified once that the node has changed, was deleted, or may have changed. notify must not block.
type watcher struct{ notify func(deleted bool) }

func (w *watch) notify(deleted bool) {
	for c := range w.watchers {
		c.notify(deleted)
	}
	w.watchers = nil
}

// watch arranges for one call of notify: when the node at path changes or is deleted, or the session ends. If the node
// is missing, the error is zk.ErrNoNode. A caller that no longer needs the notification calls stop.
func (s *session) watch(ctx context.Context, path string, notify func(deleted bool)) (stop func(), err error) {
	c := &watcher{notify}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return nil, s.endReason()
	}
	w := s.watches[path]
	if w == nil {
		w = &watch{watchers: make(map[*watcher]struct{})}
		s.watches[path] = w
	}
	w.watchers[c] = struct{}{}
	armed := w.armed
	s.mu.Unlock()
	stop = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(w.watchers, c)
		if len(w.watchers) == 0 && !w.armed && s.watches[path] == w {
			delete(s.watches, path)
		}
	}
	if armed {
		return stop, nil
	}
	_, _, err = await(ctx, s, func(conn *zk.Conn) (struct{}, error) {
		_, _, _, err := conn.GetW(path) // ExistsW would leave a watch on a node that is missing
		return struct{}{}, err
	}, nil)
	if err != nil {
		stop()
		return nil, err
	}
	s.mu.Lock()
	w.armed = s.watches[path] == w
	s.mu.Unlock()
	return stop, nil
}

// notifyWatchers notifies the watchers of path that its node was deleted, or that something else happened.
func (s *session) notifyWatchers(path string, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[path]; w != nil {
		delete(s.watches, path)
		w.notify(deleted)
	}
}
