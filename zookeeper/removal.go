package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// A holder whose node is removed by another client is told at once: by a watch on its own node. The read that sets the watch is made
// when a lease has lived for watchAfter, and so a cycle of acquire and release that is shorter costs none. A node that is gone by
// then is found missing by that read.

const (
	watchAfter  = 100 * time.Millisecond
	watchAtOnce = 64 // reads under way in a session
)

// watchSoon has the node of a lease watched by this session, in which it lives.
func (s *session) watchSoon(n *node) {
	time.AfterFunc(s.b.watchAfter, func() { s.watchNow(n) })
}

func (s *session) watchNow(n *node) {
	if s.isOver() || n.isOver() {
		return
	}
	s.b.calls.Background(func() {
		s.watching <- struct{}{}
		defer func() { <-s.watching }()
		s.watchOwn(n)
	})
}

// watchOwn watches the node of a lease, and ends the lease if it is missing. A server on which it was seen once never forgets it
// but for its removal: a move makes it anew by the same write.
func (s *session) watchOwn(n *node) {
	again := func(bool) { s.watchNow(n) } // something has happened that its holder may not know: look what
	_, err := s.watch(context.Background(), n.path(), again)
	home, _ := n.home()
	switch {
	case err == nil, n.isOver(), s.isOver():
	case home != s: // it was moved meanwhile
		home.watchSoon(n)
	case errors.Is(err, zk.ErrNoNode):
		if l := n.lease(); l != nil {
			l.Lose()
		}
	default:
		s.watchSoon(n)
	}
}
