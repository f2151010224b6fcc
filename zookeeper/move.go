package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// move gives n's place to another session, by one write: the node is deleted and created again under the same name, which
// is all that the order of the queue depends on, and belongs to the session that makes the write. Nobody sees the place
// empty; the waiter that watches the node is woken, and finds it there. A node that is missing is ErrLost.
//
// A move that went unanswered may be made again: whichever session the node lives in, it then lives in the new one. Until
// then the lease counts on both.
func (b *Backend) move(ctx context.Context, n *node, to *session) error {
	from, maybe := n.home()
	if from.isOver() {
		return backend.ErrLost
	}
	// A session that has not begun yet keeps nothing, and nothing is known of it.
	end := time.Now().Add(b.options.Timeout)
	if _, err := to.whenReady(ctx, end); err != nil {
		return err
	}
	if to != from {
		if !b.keepIn(to, n) {
			return to.reason()
		}
		n.mayMove(to)
	}
	_, sent, err := await(ctx, to, request[[]zk.MultiResponse]{
		limit: time.Until(end),
		grace: answerGrace,
		do: func(c *zk.Conn) ([]zk.MultiResponse, error) {
			return c.Multi(
				&zk.DeleteRequest{Path: n.path(), Version: -1},
				&zk.CreateRequest{
					Path: n.path(), Data: record(n.czxid.Load(), n.owner), Acl: b.acl, Flags: zk.FlagEphemeral,
				},
			)
		},
	})
	switch {
	case err == nil:
		to.contact.proved(sent)
		n.mu.Lock()
		n.s, n.maybe = to, nil
		n.mu.Unlock()
		for _, s := range []*session{from, maybe} {
			if s != nil && s != to {
				s.part(n)
			}
		}
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return backend.ErrLost
	case wasNotSent(err) && maybe == nil:
		n.mu.Lock()
		n.maybe = nil
		n.mu.Unlock()
		if to != from {
			to.part(n)
		}
	}
	return err
}

// keepIn makes another session answer for n, too.
func (b *Backend) keepIn(s *session, n *node) bool {
	s.mu.Lock()
	_, kept := s.nodes[n]
	s.mu.Unlock()
	if kept {
		return true
	}
	if _, err := b.enterSession(s); err != nil {
		return false
	}
	if !s.keep(n) {
		b.leave(s)
		return false
	}
	return true
}
