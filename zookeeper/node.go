package zookeeper

import (
	"errors"
	"sync"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// errGone tells that a waiter's node was deleted behind its back.
var errGone = errors.New("the node of this request was deleted by another client")

// A node is the place of one owner in the queue of a key, and then its lease: an ephemeral sequential node.
type node struct {
	owner string
	dir   string // of the key

	// Set when it is created.
	prefix string // of its name, before the number; no other has it
	name   string
	number int32
	token  uint64 // the zxid of the create
	stray  bool   // an unanswered create may have made another node, or make one later

	mu     sync.Mutex
	s      *session      // where it lives
	maybe  *session      // where it may live: a move is under way, or went unanswered
	moving chan struct{} // closed when the request of the latest move is over; nil before the first
	over   bool          // it is released, or its lease is lost: no session answers for it any more
	life   *kit.Life
}

func newNode(b *Backend, r backend.Request) *node {
	return &node{owner: r.Owner, dir: b.dir(r.Key), prefix: nodePrefix(r.Owner)}
}

func (n *node) path() string { return n.dir + "/" + n.name }

// home returns the session in which it lives, and the one in which it may live too.
func (n *node) home() (s, maybe *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.s, n.maybe
}

// lease returns the lease, nil before the grant.
func (n *node) lease() *kit.Life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// end notes that n is over, and is home.
func (n *node) end() (s, maybe *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	return n.s, n.maybe
}

func (n *node) isOver() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.over
}

// mayMove notes that n is about to be moved to another session, by a request that closes moving when it is over, and may live
// there from then on. It is false when n is over.
func (n *node) mayMove(to *session, moving chan struct{}) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return false
	}
	n.maybe, n.moving = to, moving
	return true
}

// moved notes that n lives in another session now, and returns those that answer for it no longer.
func (n *node) moved(to *session) (others []*session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if others = append(others, n.s); n.over {
		others = append(others, to)
	}
	n.s, n.maybe = to, nil
	return others
}

// notMoved notes that a move was not made.
func (n *node) notMoved() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.maybe = nil
}

// lastMove is closed when the request of the latest move is over, nil if there was none.
func (n *node) lastMove() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.moving
}

// keep makes a session answer for n, which is one of its users from then on.
func (b *Backend) keep(s *session, n *node) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, kept := s.nodes[n]; kept {
		return nil
	}
	if b.shut {
		return backend.ErrClosed
	}
	if s.err != nil {
		return s.err
	}
	s.nodes[n] = struct{}{}
	b.useLocked(s)
	return nil
}

// part is the opposite of keep.
func (s *session) part(n *node) {
	s.mu.Lock()
	_, kept := s.nodes[n]
	delete(s.nodes, n)
	s.mu.Unlock()
	if kept {
		s.b.leave(s)
	}
}
