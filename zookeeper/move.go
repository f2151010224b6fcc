package zookeeper

import (
	"context"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// move gives n's place to another session, by one write: the node is deleted and created again under the same name, which
// is all that the order of the queue depends on, and belongs to the session that makes the write. Nobody sees the place
// empty; its data is changed first, in the same write, so that whoever watches the node is told that, and not that it has gone. A node
// that is missing is zk.ErrNoNode, one that is over ErrLost.
//
// A move that went unanswered is for settle to make again. Until then the lease may live in either session. So the other one must be
// kept until end, as far as it is known beforehand: that is behind the deadline of the lease, as its TTL gets longer.
func (b *Backend) move(ctx context.Context, n *node, to *session, end time.Time) error {
	from, maybe := n.home()
	if from.isOver() {
		return backend.ErrLost
	}
	// A session that has not begun yet keeps nothing, and nothing is known of it.
	if _, err := to.whenReady(ctx, time.Now().Add(b.options.Timeout)); err != nil {
		return err
	}
	if to.contact.assumed(b.guarantees.MaxSilence).Before(end) {
		if err := to.secure(ctx, end, to.prove); err != nil {
			return err
		}
	}
	if err := b.keep(to, n); err != nil {
		return err
	}
	moving := make(chan struct{})
	over := sync.OnceFunc(func() { close(moving) }) // a request that was queued may turn out not to have been sent
	if !n.mayMove(to, moving) {
		to.part(n)
		return backend.ErrLost
	}
	_, sent, err := await(ctx, to, request[[]zk.MultiResponse]{
		do: func(c *zk.Conn) ([]zk.MultiResponse, error) {
			defer over()
			return c.Multi(
				&zk.SetDataRequest{Path: n.path(), Version: -1},
				&zk.DeleteRequest{Path: n.path(), Version: -1},
				&zk.CreateRequest{
					Path: n.path(), Data: record(n.token, n.owner), Acl: b.acl, Flags: zk.FlagEphemeral,
				},
			)
		},
	})
	switch {
	case err == nil:
		to.contact.proved(sent)
		for _, s := range n.moved(to) {
			s.part(n)
		}
		to.watchSoon(n)
		return nil
	case wasNotSent(err):
		over()
		if maybe == nil {
			n.notMoved()
			to.part(n)
		}
	}
	return err
}

// settle finds out where n lives after a move that went unanswered, by making it again. A move to a third session, or back, would
// not do: the first could arrive behind it, and leave the node in a session that nobody keeps for it.
func (b *Backend) settle(ctx context.Context, n *node) error {
	_, maybe := n.home()
	if maybe == nil {
		return nil
	}
	t := time.NewTimer(b.options.Timeout)
	defer t.Stop()
	select { // it may be sent yet, or be on its way: only one that is over is certainly made before the next, or never
	case <-n.lastMove():
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	case <-t.C:
		return errNoAnswer
	}
	return b.move(ctx, n, maybe, time.Time{})
}
