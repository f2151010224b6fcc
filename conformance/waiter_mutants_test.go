package conformance_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	waitEndsEarly  = "wait ends at nine tenths of its context's time"
	waitInSeconds  = "time of a wait is cut to whole seconds"
	readerTires    = "waiting reader gives up after 2 seconds of silence"
	readerGivesUp  = "waiting reader of more than 3 seconds gives up when it is cut"
	readersEmptied = "emptied store parks waiting readers"
	commaStays     = "waiter whose owner has a comma stays in the queue"
	waiterJoined   = "waiter is known by its key and owner together"
	readerJoined   = "reader is known by its key and owner together"
	nextLosesTurn  = "waiter that is cancelled at its turn costs the next one its place"
)

// waiterMutants are bugs of waits that end, of waiting readers, and of the names of waiters.
var waiterMutants = []mutant{
	{waitEndsEarly, "CancelledWhileWaiting"},
	{waitInSeconds, "CancelledWhileWaiting"},
	{readerTires, "SilentWaiterOutlivesOutage"},
	{readerGivesUp, "EachWaiterOutlivesOutage"},
	{readersEmptied, "EmptiedStoreServes"},
	{commaStays, "ExtremesAreAccepted"},
	{waiterJoined, "OwnersThatLookAlike"},
	{nextLosesTurn, "CancelledWaiterDelaysNextBriefly"},
}

// timeOf returns when a wait with the bugs of a time limit ends, or nil.
func (c *client) timeOf(ctx context.Context) <-chan time.Time {
	end, ok := ctx.Deadline()
	switch {
	case !ok:
		return nil
	case c.is(waitEndsEarly):
		return time.After(time.Until(end) * 9 / 10)
	case c.is(waitInSeconds):
		return time.After(max(time.Second, time.Until(end).Truncate(time.Second)))
	}
	return nil
}

// timesOutEarly ends the wait of r, before its context, as a bug.
func (c *client) timesOutEarly(r backend.Request) error {
	c.leave(r)
	return fmt.Errorf("%w: %w", context.DeadlineExceeded, backend.ErrHeld)
}

// parksEmptied makes a reader wait for its context or Close when the store has lost its data, as a bug. It returns the
// error of the wait, or nil if it did nothing.
func (c *client) parksEmptied(ctx context.Context, r backend.Request) error {
	c.server.mu.Lock()
	emptied := c.server.emptied > 0
	c.server.mu.Unlock()
	if !emptied || !r.Shared || !c.is(readersEmptied) {
		return nil
	}
	select {
	case <-ctx.Done():
		return c.endOfWait(ctx)
	case <-c.done:
		return backend.ErrClosed
	}
}

// joined returns the name of a record that a store with a bug keeps of an owner and a key.
func joined(key, owner string) string { return key + ":" + owner }

// leavesJoined removes the waiters of other keys whose key and owner together are those of the one that leaves, as a
// bug.
func (s *server) leavesJoined(key, owner string) {
	if !s.is(waiterJoined) {
		return
	}
	for other, e := range s.keys {
		for i := len(e.queue) - 1; i >= 0 && other != key; i-- {
			if joined(other, e.queue[i].Owner) == joined(key, owner) {
				e.queue = append(e.queue[:i:i], e.queue[i+1:]...)
			}
		}
	}
}

// releasesJoined is leavesJoined for readers that hold their keys.
func (s *server) releasesJoined(key, owner string) {
	if !s.is(readerJoined) {
		return
	}
	for other, e := range s.keys {
		for i := len(e.readers) - 1; i >= 0 && other != key; i-- {
			if joined(other, e.readers[i].owner) == joined(key, owner) {
				s.removeReader(other, e, i)
			}
		}
	}
}

// staysOdd reports whether a waiter stays in the queue because of its owner's name, as a bug.
func (s *server) staysOdd(owner string) bool { return strings.Contains(owner, ",") && s.is(commaStays) }

// losesNext puts the waiter behind r last, as a bug, if r is cancelled when it has had its turn.
func (c *client) losesNext(r backend.Request) {
	if r.Shared || !c.is(nextLosesTurn) {
		return
	}
	time.Sleep(rand.N(c.server.latency())) // sleeps: its turn may come meanwhile
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if e := c.server.entryLocked(r.Key); e.owner == r.Owner && len(e.queue) > 1 {
		e.queue = rotated(e.queue)
	}
}
