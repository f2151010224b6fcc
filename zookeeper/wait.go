package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// recheck is how long a waiter relies on its watch: wake-ups are hints.
const recheck = 5 * time.Second

// sleep waits until something happens to the node before n's, the only one that it watches, or until it is time to look
// in any case. told tells which.
func (a *attempt) sleep(ctx context.Context, s *session, n *node, before []place) (told bool, err error) {
	fired, stop, err := s.watch(ctx, n.dir+"/"+before[len(before)-1].name)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return true, nil
	case err != nil && a.mayGoOn(ctx, s, err):
		return false, a.b.sleep(ctx, 20*time.Millisecond)
	case err != nil:
		return false, err
	}
	defer stop()
	t := time.NewTimer(recheck + rand.N(recheck))
	defer t.Stop()
	select {
	case <-fired:
		return true, nil
	case <-t.C:
		a.heardOf(s)
		return false, nil
	case <-s.over:
		a.heardOf(s)
		return false, s.reason()
	case <-ctx.Done():
		return false, backend.ContextError(ctx, nil)
	case <-a.b.closing:
		return false, backend.ErrClosed
	}
}

// heardOf notes when the ensemble was heard of last while nothing was read: a waiter's patience counts from when an outage began.
func (a *attempt) heardOf(s *session) {
	if at, _ := s.contact.heard(); at.After(a.answered) {
		a.answered = at
	}
}

// lastInLine is sleep for the waiter behind the holder. When something has happened it is most likely its turn: it
// reads the queue and, unless its last write is recent, makes sure of itself at once, in one round trip. at is when the
// write was sent that did so, zero if there was none.
func (a *attempt) lastInLine(ctx context.Context, s *session, n *node, before []place, sent time.Time) (
	at time.Time, l *listing, err error,
) {
	if told, err := a.sleep(ctx, s, n, before); err != nil || !told || a.isRecent(sent) {
		return time.Time{}, nil, err
	}
	type checked struct {
		at  time.Time
		err error
	}
	done := make(chan checked, 1)
	go func() {
		at := time.Now()
		done <- checked{at, s.check(ctx, n.path())}
	}()
	got, lerr := s.children(ctx, n.dir)
	c := <-done
	if lerr != nil {
		return time.Time{}, nil, nil // the caller reads again
	}
	if c.err != nil {
		c.at = time.Time{}
	}
	return c.at, &got, nil
}
