package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// lastNumber is the last number that gives an order. The server numbers the children of a container with a counter of
// 31 bits, which does not wrap around. DataTree.createNode only raises it, so it stays at 2147483647, and all later
// children have that number (or a negative number while requests are in flight). So numbers above lastNumber, or below
// 0, give no order.
//
// A shared request whose node has such a number needs no order if its read of the queue finds no exclusive node. Any
// exclusive request that is created later finds the node of the reader, and no container is deleted while it contains a
// node.
//
// An exclusive node with such a number never holds the key. Its request waits until nobody holds the key, deletes the
// node and the container in one write, and starts again: the next container counts from 0. Until then the node keeps
// new readers out.
const lastNumber = math.MaxInt32 - 1<<20

func (p place) isOrdered() bool { return p.number >= 0 && p.number <= lastNumber }

// enterUnordered handles n, whose number gives no order. If n may hold the key, it sets a.first. If it returns ErrHeld,
// the attempt waits or is refused. Otherwise the attempt must create another node.
func (a *attempt) enterUnordered(ctx context.Context) error {
	pause := kit.Pause{Min: 5 * time.Millisecond, Max: 250 * time.Millisecond}
	for end := time.Now().Add(a.b.options.Timeout); ; {
		names, err := a.readQueue(ctx)
		if err != nil {
			return err
		}
		others := queueOf(names)
		i := a.indexIn(others)
		others = slices.Delete(others, i, i+1)
		ahead := conflicting(others, a.r.Shared)
		switch {
		case a.r.Shared && len(ahead) == 0:
			a.first = true
			return nil
		case !a.r.Shared && len(ahead) > 0:
			return a.refuse(others, ahead)
		case a.r.Shared, i > 0: // n would keep the exclusive request from deleting the container
			if !a.deleteNode(ctx) {
				a.withdraw()
				return errUnconfirmed
			}
			return a.refuse(others, conflicting(others, true))
		}
		deleted, err := a.deleteContainer(ctx)
		if deleted || err != nil {
			return err
		}
		if !a.r.Wait && time.Now().After(end) {
			return a.usedUpError()
		}
		if err := kit.Sleep(ctx, pause.Next(0)); err != nil {
			return err
		}
	}
}

// deleteContainer deletes n and the key's container, and reports whether n was the only child.
func (a *attempt) deleteContainer(ctx context.Context) (deleted bool, err error) {
	path := a.n.path() // the request may outlive this call
	_, err = awaitIdempotent(ctx, a.s, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		return c.Multi(&zk.DeleteRequest{Path: path, Version: -1}, &zk.DeleteRequest{Path: a.dir, Version: -1})
	})
	switch {
	case err == nil, errors.Is(err, zk.ErrNoNode): // an unanswered request may have deleted them
		a.n, a.missing = nil, true
		return true, nil
	case errors.Is(err, zk.ErrNotEmpty):
		return false, nil
	case isReply(err):
		return false, fmt.Errorf("%w: %w", a.usedUpError(), err)
	}
	a.withdraw() // the outcome is unknown: n may be deleted
	return false, err
}

func (a *attempt) usedUpError() error {
	return fmt.Errorf("%w: the sequence numbers of %s are used up: delete its children, then this node",
		backend.ErrUnavailable, a.dir)
}
