package zookeeper

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

// errGone tells that a waiter's node was deleted behind its back.
var errGone = errors.New("the node of this request was deleted by another client")

// A node is the place of one owner in the queue of a key, and then its lease: an ephemeral sequential node.
type node struct {
	key, owner string
	dir        string // of the key
	prefix     string // of its name, before the number; no other has it

	czxid atomic.Uint64 // of its creation: the fencing token

	// Set before the lease is granted, then guarded by s.mu of the session that it is in.
	name string
	echo bool // a create went unanswered, and may yet leave a second node

	mu      sync.Mutex
	s       *session  // where it lives
	maybe   *session  // where it may live: a move is under way, or went unanswered
	assumed time.Time // until when maybe keeps it at least, if it lives there
	life    *backend.Life
	long    bool // longer than the ensemble keeps a session
}

func newNode(b *Backend, r backend.Request) *node {
	return &node{key: r.Key, owner: r.Owner, dir: b.dir(r.Key), prefix: nodePrefix(r.Owner)}
}

func (n *node) path() string { return n.dir + "/" + n.name }

// home returns the session in which it lives, and the one in which it may live too.
func (n *node) home() (s, maybe *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.s, n.maybe
}

// lease returns the lease, nil before the grant, and whether it is longer than its session.
func (n *node) lease() (l *backend.Life, long bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life, n.long
}

func (n *node) setLong(long bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.long = long
}

// mayMove notes that n is about to be moved to another session, and may live there from then on.
func (n *node) mayMove(to *session) {
	end := to.contact.assumed(to.b.guarantees.MaxSilence)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.maybe != to { // else it may have been moved before
		n.maybe, n.assumed = to, end
	}
}

// claim is until when it lives at least, and what a deadline is made of that moves on by itself.
func (n *node) claim() time.Time {
	s, maybe := n.home()
	t, _ := n.claimIn(s)
	if maybe != nil {
		if m, ok := n.claimIn(maybe); ok && m.Before(t) {
			t = m
		}
	}
	return t
}

// claimIn is until when s keeps it at least, if it lives there; ok is false if it certainly does not.
func (n *node) claimIn(s *session) (end time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	end = s.contact.claim(s.b.guarantees.MaxSilence)
	if n.s == s {
		return end, true
	}
	// What is known of s may be old, or nothing yet. A move that was made proves it, as of then.
	if end.Before(n.assumed) {
		end = n.assumed
	}
	return end, n.maybe == s
}

// keep makes the session answer for n. It is false when the session is over.
func (s *session) keep(n *node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.nodes[n] = struct{}{}
	return true
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
