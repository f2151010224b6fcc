package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend/kit"
)

// recheck is how long a waiter relies on its watch: wake-ups are hints.
const recheck = 5 * time.Second

// sleep waits until something happens to the node before n's, the only one that it watches, or until it is time to look
// in any case. gone tells that this node is not there any more, and never will be: one that is moved has its data changed before.
func (a *attempt) sleep(ctx context.Context, s *session, n *node, before []place) (gone bool, err error) {
	fired := make(chan bool, 1)
	stop, err := s.watch(ctx, n.dir+"/"+before[len(before)-1].name, func(gone bool) { fired <- gone })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return true, nil
	case err != nil && a.mayGoOn(ctx, s, err):
		return false, kit.Sleep(ctx, 20*time.Millisecond)
	case err != nil:
		return false, err
	}
	defer stop()
	t := time.NewTimer(recheck + rand.N(recheck))
	defer t.Stop()
	select {
	case gone = <-fired:
		return gone, nil
	case <-t.C:
		a.heardOf(s)
		return false, nil
	case <-s.over:
		a.heardOf(s)
		return false, s.reason()
	case <-ctx.Done():
		return false, kit.ContextError(ctx, nil)
	}
}

// heardOf notes when the ensemble was heard of last while nothing was read: a waiter's patience counts from when an outage began.
func (a *attempt) heardOf(s *session) {
	if at, _ := s.contact.heard(); at.After(a.answered) {
		a.answered = at
	}
}
