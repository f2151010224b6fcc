package zookeeper

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// errDeleted reports that another client has deleted a waiter's node.
var errDeleted = errors.New("the node of this request was deleted by another client")

// A node is an ephemeral sequential node: the place of one owner in the queue of a key, and later its lease.
type node struct {
	owner string
	dir   string // the key's container
	place        // without the name and the number until the node is created

	token     uint64 // the zxid of the create
	mayRemain bool   // an unanswered create may have made another node, or make one later

	mu     sync.Mutex
	s      *session      // to which the node belongs
	target *session      // to which the node may belong: a move is under way, or was not answered
	moved  chan struct{} // closed when the request of the latest move has ended; nil before the first move
	ended  bool          // the lease is released or lost, so no session has to keep the node
	life   *kit.Life
	final  time.Time // the session's limit of the deadline when the lease was lost; zero before
}

func newNode(s *session, r backend.Request) *node {
	m := modeOf(r)
	return &node{owner: r.Owner, dir: s.b.dir(r.Key), place: place{prefix: nodePrefix(r.Owner, m), mode: m}, s: s}
}

func (n *node) path() string { return n.dir + "/" + n.name }

// sessions returns the session to which n belongs, and the session to which it may belong because of a move.
func (n *node) sessions() (s, target *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.s, n.target
}

// lease returns the lease, nil before the grant.
func (n *node) lease() *kit.Life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// freezeDeadline sets the final deadline of a lost lease. Later contact of its session does not move the deadline.
func (n *node) freezeDeadline(limit time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.final.IsZero() {
		n.final = limit
	}
}

// end marks n as ended, and returns its sessions.
func (n *node) end() (s, target *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	return n.s, n.target
}

func (n *node) hasEnded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// addNode makes n a node that s has to keep. The node is a user of the session until removeNode.
func (s *session) addNode(n *node) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, kept := s.nodes[n]; kept {
		return nil
	}
	if s.b.sessions == nil {
		return backend.ErrClosed
	}
	if s.err != nil {
		return s.err
	}
	s.nodes[n] = struct{}{}
	s.users++
	return nil
}

func (s *session) removeNode(n *node) {
	s.mu.Lock()
	_, kept := s.nodes[n]
	delete(s.nodes, n)
	s.mu.Unlock()
	if kept {
		s.b.checkIn(s)
	}
}

// move makes n a node of another session, by one write. The write deletes the node and creates it again under the same
// name, which alone decides its place in the queue. The node then belongs to the session that makes the write. No
// reader sees the place empty. The same write changes the node's data first, so watchers are notified of a change and
// not of a deletion. If the node is missing, the error is zk.ErrNoNode; if the lease has ended, ErrLost.
//
// If a move is not answered, finishMove repeats it. Until then the node may belong to either session. So the ensemble
// must keep target until end, as far as that can be proved before the move. end is after the lease's deadline, because
// its TTL gets longer.
func (n *node) move(ctx context.Context, target *session, end time.Time) error {
	b := target.b
	from, pending := n.sessions()
	if from.hasEnded() {
		return backend.ErrLost
	}
	// The contact of a session is empty before its first connection.
	if _, err := target.whenConnected(ctx, time.Now().Add(b.options.Timeout)); err != nil {
		return err
	}
	if at, ok := target.contact.writeTime(end); !ok || time.Until(at) > 0 { // the move alone would not prove it
		if err := target.proveUntil(ctx, end, target.prove); err != nil {
			return err
		}
	}
	if err := target.addNode(n); err != nil {
		return err
	}
	moved := make(chan struct{})
	requestEnded := sync.OnceFunc(func() { close(moved) })
	n.mu.Lock()
	if n.ended {
		n.mu.Unlock()
		target.removeNode(n)
		return backend.ErrLost
	}
	n.target, n.moved = target, moved
	n.mu.Unlock()
	_, sent, err := await(ctx, target, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		defer requestEnded()
		return c.Multi(
			&zk.SetDataRequest{Path: n.path(), Version: -1},
			&zk.DeleteRequest{Path: n.path(), Version: -1},
			&zk.CreateRequest{Path: n.path(), Data: record(n.token, n.owner), Acl: b.options.ACL, Flags: zk.FlagEphemeral},
		)
	}, nil)
	switch {
	case err == nil:
		target.contact.committed(sent)
		n.mu.Lock()
		ended := n.ended
		n.s, n.target = target, nil
		n.mu.Unlock()
		from.removeNode(n)
		if ended {
			target.removeNode(n)
		}
		target.watchSoon(n)
	case wasNotSent(err):
		requestEnded()
		if pending == nil {
			n.mu.Lock()
			n.target = nil
			n.mu.Unlock()
			target.removeNode(n)
		}
	}
	return err
}

// finishMove repeats a move that was not answered, which decides to which session n belongs. A move to a third session,
// or back, would not do. The first request could arrive after it, and make the node part of a session that nobody
// keeps.
func (n *node) finishMove(ctx context.Context) error {
	n.mu.Lock()
	target, moved := n.target, n.moved
	n.mu.Unlock()
	if target == nil {
		return nil
	}
	select { // only a request that has ended is certain to be carried out before the next, or never
	case <-moved:
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	case <-time.After(target.b.options.Timeout):
		return errNoAnswer
	}
	return n.move(ctx, target, time.Time{})
}
