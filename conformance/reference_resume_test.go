package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var _ backend.Resumer = (*client)(nil)

// Resume implements backend.Resumer.
func (c *client) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.ValidateFor(backend.Guarantees{Shared: !c.is(unshared, unsharedHeld, unsharedSent)}); err != nil &&
		!(r.TTL == 0 && (c.is("resume takes TTL 0") || r.Shared && c.is(resumeReaderNoTTL))) {
		return nil, err
	}
	if c.leases.Closed() {
		if c.is("Resume after Close is unavailable") {
			return nil, fmt.Errorf("%w: connection closed", backend.ErrUnavailable)
		}
		return nil, backend.ErrClosed
	}
	if err := kit.ContextError(ctx, nil); err != nil {
		if c.is("resume with an ended context ends the lease") {
			c.server.releaseMode(r.Key, r.Owner, r.Shared)
		}
		if !c.is("resume ignores its context") {
			return nil, err
		}
		ctx = context.WithoutCancel(ctx)
	}
	if r.Wait && c.is("resume that waits is refused") {
		return nil, fmt.Errorf("%w: resume never waits", backend.ErrInvalid)
	}
	if !c.is("resume below MinTTL is kept as asked") && !(r.Shared && c.is(resumeTinyReader)) {
		r.TTL = max(r.TTL, 10*time.Millisecond)
	}
	l, err := c.resume(ctx, r)
	if err != nil {
		return nil, c.resumeError(err)
	}
	if l == nil {
		return nil, nil
	}
	if o := c.oddly(l, false, true); o != nil {
		return o, nil
	}
	return l, nil
}

func (c *client) resume(ctx context.Context, r backend.Request) (*kit.Life, error) {
	g := kit.Grant{Sent: time.Now(), TTL: r.TTL}
	token, held, err := c.asksToResume(ctx, r, g.Sent)
	if errors.Is(err, errReset) && c.is(resumeKept) {
		g.Sent = time.Now()
		err = c.do(ctx, func() { token, held = c.server.token(r.Key, r.Owner) })
	}
	if err != nil {
		switch {
		case c.is("renewal extends nothing after a Resume without a reply"):
			c.server.mu.Lock()
			e := c.server.entryLocked(c.server.name(r.Key))
			e.unsureResume = e.owner == r.Owner && e.resumedBy == c
			c.server.mu.Unlock()
		case c.is("resume that is not answered is cleaned up"), r.Shared && c.is(lostResumeCleans):
			c.leases.Abandon(r, r.TTL)
		case c.is("resume that is not answered is ErrLost"):
			return nil, backend.ErrLost
		}
		return nil, err
	}
	if !held {
		return nil, backend.ErrLost
	}
	switch {
	case c.is("resume returns another token"):
		token++
	case c.is("resumed deadline is a second late"):
		g.Sent = g.Sent.Add(time.Second)
	case c.is("resumed deadline counts from the answer"), r.Shared && c.is(resumeFromAnswer):
		g.Sent = time.Now()
	}
	g.Token = token
	c.mu.Lock()
	c.resumed = append(c.resumed, r)
	c.mu.Unlock()
	if c.leases.Closed() {
		switch {
		case c.is("Resume that meets Close returns a live lease"):
			return kit.NewLeases(requests{c}, requestTimeout).Resume(r, g)
		case c.is("Resume that meets Close returns neither lease nor error"):
			return nil, nil
		case c.is("Resume that meets Close is cleaned up"):
			c.server.releaseMode(r.Key, r.Owner, r.Shared)
		}
	}
	life, err := c.leases.Resume(r, g)
	if err == nil && c.server.notifies() {
		c.mu.Lock()
		c.lives = append(c.lives, life)
		c.mu.Unlock()
	}
	if err == nil {
		c.countsResumed(life)
	}
	return life, err
}

// endsResumed releases the leases that the client has resumed, as a bug of Close.
func (c *client) endsResumed() {
	c.mu.Lock()
	resumed := slices.Clone(c.resumed)
	c.mu.Unlock()
	for _, r := range resumed {
		if r.Shared || !c.is(closeEndsResumed) {
			c.server.releaseMode(r.Key, r.Owner, r.Shared)
		}
	}
}

// resume extends the lease of r's owner and mode to r.TTL from now, and returns its token. The request was sent at
// sent.
func (s *server) resume(c *client, r backend.Request, sent time.Time) (token uint64, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := s.name(r.Key), time.Now()
	e := s.entryLocked(key)
	s.expireLocked(key, e, now)
	if r.Shared {
		key = s.sharedName(key)
		e = s.entryLocked(key)
	}
	shared := r.Shared
	if s.is("resume ignores the mode") {
		shared = len(e.readers) > 0
	}
	if shared {
		s.resumesLate(key, e, r, now.Sub(sent) > 100*time.Millisecond)
		return s.resumeReader(key, e, c, r, now)
	}
	if !s.mayResume(e, r) {
		return s.resumeRefused(key, e, c, r, now.Sub(sent) > 100*time.Millisecond)
	}
	switch {
	case s.missesResumed(e, c, r):
		return 0, false
	case s.is("resume fails after the client was closed") && e.client.leases.Closed() && e.client.wire == nil,
		s.is("resume fails for a process that is dead") && e.client.wire != nil && e.client.wire.isDead():
		return 0, false
	case s.is("resume compares, then sets"):
		s.mu.Unlock()
		time.Sleep(40 * time.Millisecond) // sleeps: the lease may end meanwhile
		s.mu.Lock()
		now, e.owner = time.Now(), r.Owner
	case s.is("resume drops who waits first"):
		e.queue = e.queue[min(1, len(e.queue)):]
	case s.is("resume sends who waits first to the end") && e.client != c:
		e.queue = rotated(e.queue)
	case s.is("resume counts the token up"):
		e.token = s.nextToken(key, c)
	}
	s.endsOthers("timer of the time before Resume ends the lease, which others wait for", key, e, e.expires)
	end := now.Add(s.resumedTTL(e, r))
	if s.is("resume does not extend") || s.is("resume never shortens") && end.Before(e.expires) {
		end = e.expires
	}
	s.recordsLocked("store keeps a record of each resumed lease")
	sooner := end.Before(e.expires)
	e.resumedBy, e.clients, e.expires = c, e.clients+1, end
	if !sooner || !s.is("waiter sleeps until the end before Resume") {
		s.armLocked(key, e)
	}
	if e.waited && e.client.isSilent() && s.is(resumeReserved) {
		return 0, true
	}
	return e.token, true
}

// mayResume reports whether r is from the holder of the exclusive lease of e, or passes for the holder because of a
// bug.
func (s *server) mayResume(e *entry, r backend.Request) bool {
	switch {
	case e.owner == "":
		return false
	case s.is("resume ignores the owner"),
		s.is("resume knows an owner by a prefix") && strings.HasPrefix(e.owner, r.Owner),
		s.is("resume knows an owner in any case") && strings.EqualFold(e.owner, r.Owner),
		s.is("resume by an owner that waits succeeds") &&
			slices.ContainsFunc(e.queue, func(p *place) bool { return p.Owner == r.Owner }):
		return true
	}
	return e.owner == r.Owner
}

// resumeRefused applies the bugs of a Resume that is not from the holder.
func (s *server) resumeRefused(
	key string, e *entry, c *client, r backend.Request, late bool,
) (token uint64, held bool) {
	free := e.owner == "" && len(e.readers) == 0
	switch {
	case free && s.is("resume acquires a free key"):
		return s.grantLocked(key, e, r, c, time.Now()).token, true
	case free && s.is("resume revives an expired lease") && e.last == r.Owner && e.gaveUp != r.Owner,
		free && s.is("resume revives a released lease") && e.gaveUp == r.Owner,
		free && s.is("resume revives a broken lease") && e.broken && e.brokenOwner == r.Owner,
		free && s.is("late resume revives its lease") && late && e.last == r.Owner:
		s.grantLocked(key, e, r, c, time.Now())
	case e.owner != "" && (s.is("resume of another's lease extends it") || late &&
		s.is("late resume extends the next lease")):
		e.expires = time.Now().Add(r.TTL)
		s.armLocked(key, e)
		return e.token, late
	}
	return 0, false
}

// resumeReader is resume for a shared lease.
func (s *server) resumeReader(
	key string, e *entry, c *client, r backend.Request, now time.Time,
) (token uint64, held bool) {
	own := e.reader(r.Owner)
	if s.is("resume finds the reader alone that came last") && own != nil && own != e.readers[len(e.readers)-1] {
		own = nil
	}
	if own != nil && own.client.leases.Closed() && s.is("resume finds no reader of a closed client") {
		own = nil
	}
	if own != nil && own.client.wire != nil && own.client.wire.isDead() && s.is(resumeFindsNoDead) {
		own = nil
	}
	if own == nil {
		return s.resumesNoReader(key, e, r, now)
	}
	s.resumesInTwo(e, own)
	if own.resumedBy = c; s.is(resumeRotates) {
		e.queue = rotated(e.queue)
	}
	if r.TTL > time.Second && s.is("resume of a reader cuts its TTL to seconds") {
		r.TTL = r.TTL.Truncate(time.Second)
	}
	if len(e.readers) > 1 && s.is("resume of one of several readers never shortens") && now.Add(r.TTL).Before(own.expires) {
		return own.token, true
	}
	for _, other := range e.readers {
		if other == own || s.is("resume of a reader extends the others") {
			s.extendReader(key, e, other, now.Add(r.TTL))
		}
	}
	return own.token, true
}

// renewsResumed reports whether c may renew the lease of e, which another client may have resumed.
func (s *server) renewsResumed(e *entry, c *client) bool {
	return e.resumedBy == nil || !s.is("resumed lease is not renewed") &&
		!(s.is("resume ends the lease of the first client") && e.resumedBy != c)
}

// keepsResumed reports whether a release leaves a resumed lease live, as a bug.
func (s *server) keepsResumed(e *entry) bool {
	if e.resumedBy == nil {
		return false
	}
	e.clients--
	return s.is("resumed lease is not released") || s.is("lease ends when each of its clients has released it") &&
		e.clients >= 0
}
