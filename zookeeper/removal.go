package zookeeper

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A holder whose node is removed by another client is told at once: by a watch on its own node. The read that sets the watch is made
// when a lease has lived for watchAfter, and so a cycle of acquire and release that is shorter costs none. A node that is gone by
// then is found missing by that read.

const (
	watchAfter  = 100 * time.Millisecond
	watchAtOnce = 64 // reads under way
)

// An unwatched is the node of a lease that is to be watched.
type unwatched struct {
	n  *node
	at time.Time // from when on
}

// watchSoon has the node of a lease watched by this session, in which it lives.
func (s *session) watchSoon(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.unwatched = append(s.unwatched, unwatched{n, time.Now().Add(s.b.watchAfter)})
	s.wakeWatcherLocked()
}

// wakeWatcherLocked sees to it that watchDue runs when the next node is due. The caller holds s.mu.
func (s *session) wakeWatcherLocked() {
	if s.watching || len(s.unwatched) == 0 {
		return
	}
	s.watching = true
	time.AfterFunc(max(0, time.Until(s.unwatched[0].at)), func() {
		s.mu.Lock()
		s.watching = false
		s.mu.Unlock()
		s.b.calls.Background(s.watchDue)
	})
}

// watchDue watches the nodes whose time has come.
func (s *session) watchDue() {
	for {
		var due []*node
		s.mu.Lock()
		now := time.Now()
		for len(s.unwatched) > 0 && len(due) < watchAtOnce && !now.Before(s.unwatched[0].at) {
			if n := s.unwatched[0].n; !n.isOver() {
				due = append(due, n)
			}
			s.unwatched = s.unwatched[1:]
		}
		if len(due) == 0 {
			s.wakeWatcherLocked()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		var wg sync.WaitGroup
		for _, n := range due {
			wg.Go(func() { s.watchOwn(n) })
		}
		wg.Wait()
	}
}

// watchOwn watches the node of a lease, and ends the lease if it is missing. A server on which it was seen once never forgets it
// but for its removal: a move makes it anew by the same write.
func (s *session) watchOwn(n *node) {
	err := s.armOwn(context.Background(), n)
	home, _ := n.home()
	switch {
	case err == nil, n.isOver(), s.isOver():
	case home != s: // it was moved meanwhile
		home.watchSoon(n)
	case errors.Is(err, zk.ErrNoNode):
		if l, _ := n.lease(); l != nil {
			l.Lose()
		}
	default:
		s.watchSoon(n)
	}
}

func (s *session) armOwn(ctx context.Context, n *node) error {
	path := n.path()
	s.mu.Lock()
	w := s.watchedLocked(path)
	w.own = n
	armed := w.armed
	s.mu.Unlock()
	if armed {
		return nil
	}
	err := s.arm(ctx, path, w)
	if err != nil {
		s.mu.Lock()
		w.own = nil
		s.dropLocked(path, w)
		s.mu.Unlock()
	}
	return err
}

// lookAgainLocked is called when something has happened to the node of a lease, as far as its holder does not know: it looks what. The caller
// holds s.mu.
func (s *session) lookAgainLocked(n *node) {
	if s.err != nil || n.isOver() {
		return
	}
	s.unwatched = slices.Insert(s.unwatched, 0, unwatched{n: n})
	s.b.calls.Background(s.watchDue)
}
