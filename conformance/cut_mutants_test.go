package conformance_test

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// cutMutants are bugs that appear when a connection breaks at some byte of a request.
var cutMutants = []mutant{
	{"attempt whose connection broke is not cleaned up", "CutInsideAcquire"},
	{"attempt sent again meets its own ghost", "CutInsideAcquire"},
	{"cut attempt is ErrHeld", "CutInsideAcquire"},
	{"cut attempt is ErrLost", "CutInsideAcquire"},
	{"lease that its client has not heard of does not end", "CutInsideAcquire"},
	{"attempt cut while another holds the key is ErrHeld and stays in the queue", "CutInsideRefusal"},
	{"attempt whose connection broke is not cleaned up", "CutInsideWait"},
	{"cut attempt is ErrHeld", "CutInsideWait"},
	{"broken connection parks the waiter", "CutInsideWait"},
	{"broken connection parks the waiter", "CutInsideGrant"},
	{"broken connection ends the wait", "CutInsideGrant"},
	{"release sent again is ErrLost", "CutInsideRelease"},
	{"cut release is reported as done", "CutInsideRelease"},
	{"cut release is reported as ErrLost", "CutInsideRelease"},
	{"renewal without an answer ends the lease", "CutInsideRenew"},
	{"cut renewal is reported as done", "CutInsideRenew"},
	{"unanswered shorter renewal is not counted", "CutInsideRenew"},
	{"broken connection ends the client's leases", "CutInsideRenew"},
}

// cutAttempt returns the error of an attempt whose request failed with err. It applies the bugs of broken connections.
func (c *client) cutAttempt(r backend.Request, err error) error {
	c.cutAttemptNarrowly(r, err)
	switch {
	case !errors.Is(err, errReset):
	case c.is("cut attempt is ErrHeld"):
		return backend.ErrHeld
	case c.is("cut attempt is ErrLost"):
		return backend.ErrLost
	case !r.Wait && c.is("attempt cut while another holds the key is ErrHeld and stays in the queue") &&
		c.server.staysQueued(c, r):
		return backend.ErrHeld
	case c.is("lease that its client has not heard of does not end"):
		c.server.renew(r.Key, r.Owner, c, time.Hour)
	case r.Wait:
		return c.cancelled(err, cutWaitCancels)
	}
	return c.cancelled(err, cutCancels)
}

// staysQueued adds a waiter to the queue of r's key if another owner holds the key, and reports whether it did.
func (s *server) staysQueued(c *client, r backend.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.name(r.Key)
	e := s.entryLocked(key)
	if e.owner == "" || e.owner == r.Owner {
		return false
	}
	r.Owner = backend.NewOwner()
	s.enqueueLocked(key, e, &place{Request: r, client: c, turn: make(chan granted, 1), since: time.Now()})
	return true
}

// cutRenewal returns the error of a renewal whose request failed with err. It applies the bugs of broken connections.
func (c *client) cutRenewal(l *kit.Life, err error) error {
	c.cutRenewalNarrowly(l, err)
	switch {
	case !errors.Is(err, errReset):
	case c.is("cut renewal is reported as done"):
		return nil
	case c.is("broken connection ends the client's leases"):
		c.server.release(l.Key(), l.Owner())
	}
	return err
}

// cutRelease returns the error of a release whose request failed with err. It applies the bugs of broken connections.
func (c *client) cutRelease(err error) error {
	switch {
	case !errors.Is(err, errReset):
	case c.is("cut release is reported as done"):
		return nil
	case c.is("cut release is reported as ErrLost"):
		return backend.ErrLost
	}
	return err
}
