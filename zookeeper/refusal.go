package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// An attempt that does not wait and loses the race for a free key has a node in the queue. As long as that node exists, it refuses
// everybody else, so ErrHeld is returned only after the server has confirmed that the node is deleted, or has never received it.
// Otherwise the outcome is unknown to the caller, and the node is deleted in the background or ends with its session.

// errUnproven reports a refused attempt whose node may still exist.
var errUnproven = fmt.Errorf("%w: the key is held, and zookeeper has not confirmed that the node of this request is deleted",
	backend.ErrUnavailable)

// errAbandoned reports a session that this client gave up. Unlike an expired session, it may live on at the servers, with its nodes.
var errAbandoned = errors.New("the session was abandoned: zookeeper does not answer handshakes")

// definite returns err, or errUnproven for a refusal by an attempt of which a node may still exist.
func (a *attempt) definite(err error) error {
	if a.unproven && !a.r.Wait && errors.Is(err, backend.ErrHeld) {
		return errUnproven
	}
	return err
}

// withdraw deletes n, whose attempt failed with err, and reports whether n is known to be deleted. It waits for the answer only
// if the attempt was refused. Otherwise n is deleted in the background.
func (s *session) withdraw(ctx context.Context, n *node, err error) (deleted bool) {
	if errors.Is(err, backend.ErrHeld) {
		_, _, err := ask(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(n.path(), -1) })
		if err == nil || errors.Is(err, zk.ErrNoNode) {
			return true
		}
	}
	if errors.Is(s.reason(), errExpired) {
		return true
	}
	s.doom(&doom{dir: n.dir, name: n.name})
	return false
}
