package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// The server numbers the children of a container with a counter of 31 bits. The counter does not wrap around: DataTree.createNode only
// raises it, so it stays at 2147483647, and all later children have that number (or a negative one while requests are in flight).
// Such numbers give no order. A node with a number above lastNumber is therefore never a place in the queue: its attempt
// deletes it, waits until the container is empty, and deletes the container. The next container counts from 0.
const lastNumber = math.MaxInt32 - 1<<20

func (p place) isOrdered() bool { return isOrdered(p.number) }

func isOrdered(number int32) bool { return number >= 0 && number <= lastNumber }

// replaceContainer deletes n, whose number gives no order, and then the container once it is empty.
// An attempt that does not wait fails if somebody holds the key.
func (a *attempt) replaceContainer(ctx context.Context, s *session, n *node) error {
	if !s.withdraw(ctx, n, backend.ErrHeld) {
		a.unproven = true
		return errUnproven
	}
	pause := kit.Pause{Min: 5 * time.Millisecond, Max: 250 * time.Millisecond}
	for end := time.Now().Add(a.b.options.Timeout); ; {
		_, _, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(n.dir, -1) })
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			a.missing, a.begun = true, time.Now()
			return nil
		case !errors.Is(err, zk.ErrNotEmpty):
			return fmt.Errorf("%w: the sequence numbers of %s are used up: delete this node: %w", backend.ErrUnavailable, n.dir, err)
		}
		names, err := s.latest(ctx, n.dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		switch q := queueOf(names); {
		case len(q) > 0 && !a.r.Wait:
			return heldError(q)
		case len(q) > 0:
			a.answered, a.busy = time.Now(), heldError(q)
			if _, err := a.sleep(ctx, s, n, q); err != nil {
				return err
			}
			pause.Reset()
			continue
		case !a.r.Wait && time.Now().After(end):
			return fmt.Errorf("%w: the sequence numbers of %s are used up: delete its children, then this node", backend.ErrUnavailable, n.dir)
		}
		if err := kit.Sleep(ctx, pause.Next(0)); err != nil {
			return err
		}
	}
}
