package conformance_test

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// operateEndedMutants are bugs of calls of List and Break that must fail before they begin.
var operateEndedMutants = []mutant{
	{"List of a closed client is empty", "ListFailsAfterItsEnd"},
	{"List with an ended context is empty", "ListFailsAfterItsEnd"},
	{"Break of an empty key is ErrLost", "BreakRefusesBadInput"},
	{"Break ignores the context", "BreakRefusesBadInput"},
	{"Break of a closed client is ErrLost", "BreakRefusesBadInput"},
	{"Break takes the empty owner for the writer beside readers", "BreakRefusesBadInput"},
	{"Break takes the empty owner for the holder of a free key", "BreakRefusesBadInput"},
	{"Break of the empty owner ends whoever holds the key", "BreakRefusesBadInput"},
}

// listEnded returns the error of a List that must not begin.
func (c *client) listEnded(ctx context.Context) error {
	if c.leases.Closed() {
		if c.is("List of a closed client is empty") {
			return nil
		}
		return backend.ErrClosed
	}
	if c.is("List with an ended context is empty") {
		return nil
	}
	return kit.ContextError(ctx, nil)
}

// breakEnded returns the error of a Break that must not begin.
func (c *client) breakEnded(ctx context.Context, key string) error {
	if err := backend.ValidateKey(key); err != nil {
		if c.is("Break of an empty key is ErrLost") && key == "" {
			return backend.ErrLost
		}
		return err
	}
	if c.leases.Closed() {
		if c.is("Break of a closed client is ErrLost") {
			return backend.ErrLost
		}
		return backend.ErrClosed
	}
	if c.is("Break ignores the context") {
		return nil
	}
	return kit.ContextError(ctx, nil)
}

// breaksNobody reports whether a bug makes Break of the empty owner succeed.
func (c *client) breaksNobody(key string) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[s.name(key)]
	held := e != nil && e.isHeld(time.Now())
	if held && c.is("Break of the empty owner ends whoever holds the key") {
		s.endLocked(s.name(key), e)
		return true
	}
	return c.is("Break takes the empty owner for the writer beside readers") && held && e.owner == "" ||
		c.is("Break takes the empty owner for the holder of a free key") && !held
}
