package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// operateMutants are bugs in the requests of operators' tools.
var operateMutants = []mutant{
	{"list returns keys of its own client alone", "ListReturnsHeldKeys"},
	{"list leaves out what is waited for", "ListReturnsHeldKeys"},
	{"list takes the prefix for a pattern", "ListReturnsHeldKeys"},
	{"list compares the beginning of the prefix alone", "ListReturnsHeldKeys"},
	{"list takes _ for any byte", "ListReturnsHeldKeys"},
	{"list takes ? for any byte", "ListReturnsHeldKeys"},
	{"list takes [ for a set of bytes", "ListReturnsHeldKeys"},
	{"list drops backslashes of the prefix", "ListReturnsHeldKeys"},
	{"break ends whoever holds the key", "BreakEndsOneLease"},
	{"break takes a waiter's place away", "BreakEndsOneLease"},
	{"break wakes nobody", "BreakEndsOneLease"},
	{"break ends nothing", "BreakEndsOneLease"},
	{"Break of an expired lease is nil", "BreakEndsOneLease"},
}

var (
	_ backend.Lister  = (*client)(nil)
	_ backend.Breaker = (*client)(nil)
)

func (c *client) List(ctx context.Context, prefix string) (keys []string, err error) {
	if err := c.listEnded(ctx); err != nil {
		return nil, err
	} else if err := c.unserved(listEmptied); err != nil {
		return nil, err
	} else if c.is("List of a closed client is empty") && c.leases.Closed() ||
		c.is("List with an ended context is empty") && ctx.Err() != nil {
		return nil, nil
	}
	c.keeps("list keeps a connection until Close")
	ctx = c.only(ctx, "list under way ignores cancellation")
	if c.server.paged() {
		return c.listPages(ctx, prefix)
	}
	if c.is(listCaches) {
		return c.listsAgain(ctx, prefix)
	}
	var found []string
	if prefix == "" && c.is("list of the empty prefix is empty") {
		return nil, nil
	}
	if c.is("each List leaves a goroutine until Close") {
		go func() { <-c.done }()
	}
	err = c.do(ctx, func() {
		if found = c.server.list(c, prefix); c.is(pagesByReader) {
			found = c.server.listByLease(prefix)
		}
	})
	if err != nil {
		return nil, c.cancelled(err, listCancels)
	}
	if c.is("next list overwrites the keys of the last one") {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.listed = append(c.listed[:0], found...)
		return c.listed, nil
	}
	return found, nil
}

func (s *server) list(c *client, prefix string) (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, shared := time.Now(), 0
	for key, e := range s.keys {
		if !e.isHeld(now) && !s.listsOver(e, now) && !s.listsEnded(e) || s.unlisted(e) ||
			s.is("list leaves out keys of readers") && e.owner == "" {
			continue
		}
		fits := strings.HasPrefix(key, prefix)
		switch {
		case s.is("list takes the prefix for a pattern"):
			head, _, cut := strings.Cut(prefix, "*")
			fits = fits && !cut || cut && len(prefix) > len(head)+1 && strings.HasPrefix(key, head)
		case s.is("list takes _ for any byte", "list takes ? for any byte"):
			any := s.bug[len("list takes ")]
			fits = len(key) >= len(prefix)
			for i := 0; fits && i < len(prefix); i++ {
				fits = prefix[i] == any || prefix[i] == key[i]
			}
		case s.is("list takes [ for a set of bytes"):
			head, rest, cut := strings.Cut(prefix, "[")
			set, _, cut2 := strings.Cut(rest, "]")
			fits = fits && !cut || cut && cut2 && len(key) > len(head) && strings.HasPrefix(key, head) &&
				strings.IndexByte(set, key[len(head)]) >= 0
		case s.is("list drops backslashes of the prefix"):
			fits = strings.HasPrefix(key, strings.ReplaceAll(prefix, `\`, ""))
		case s.is("list compares the beginning of the prefix alone"):
			fits = strings.HasPrefix(key, prefix[:min(len(prefix), 20)])
		case s.is("list returns keys of its own client alone"):
			fits = fits && e.client == c
		case s.is("list leaves out what is waited for"):
			fits = fits && len(e.queue) == 0
		}
		if fits = s.listsShared(e, key, prefix, fits, shared); fits {
			s.listed(e)
			keys = append(keys, key)
		}
		if fits && e.owner == "" {
			shared++
		}
		if fits && len(e.readers) > 100 && s.is(listsMany) {
			keys = append(keys, key)
		}
		for range e.readers {
			if fits && s.is("list returns a key for each reader") {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func (c *client) Break(ctx context.Context, key, owner string) error {
	if err := c.breakEnded(ctx, key); err != nil {
		return err
	}
	if owner == "" && !c.breaksNobody(key) {
		return backend.ErrLost
	} else if owner == "" {
		return nil
	}
	if c.is("Break ignores the context") {
		ctx = context.WithoutCancel(ctx)
	}
	ctx = c.only(ctx, "break under way ignores cancellation")
	if c.takesAnswer(breakShifts, func() {}) {
		return backend.ErrLost
	}
	done := false
	if c.is("break compares, then ends whoever holds the key") {
		var err error
		if done, err = c.breaksInTwo(ctx, key, owner); err != nil {
			return err
		}
	} else if err := c.unserved(breakAfterCut); err != nil {
		return err
	} else if err := c.do(ctx, func() {
		c.server.breaker.Store(c)
		done = c.server.breakLease(key, owner)
	}); err != nil {
		if c.leavesAnswer(ctx, breakShifts); errors.Is(err, errReset) && c.is(breakAgain) {
			return c.breaksAgain(ctx, key)
		}
		return c.cutBreak(err)
	}
	if !done {
		c.leavesGoroutine("Break of nobody leaves a goroutine")
		return backend.ErrLost
	}
	return nil
}

func (s *server) breakLease(key, owner string) (done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.name(key)
	e := s.entryLocked(key)
	s.expireLocked(key, e, time.Now())
	if s.missesOwner(owner) {
		return false
	}
	if e.owner == "" && e.expired && e.last == owner && s.is("Break of an expired lease is nil") {
		return true
	}
	if i := slices.IndexFunc(e.queue, func(p *place) bool { return p.Owner == owner }); i >= 0 &&
		s.is("break takes a waiter's place away") {
		e.queue = slices.Delete(e.queue, i, i+1)
		return true
	}
	s.breakWaiter(e, owner)
	if done, differs := s.breakDiffers(key, e, owner); differs {
		return done
	}
	if s.breakReader(key, e, owner) {
		return true
	}
	if !s.isOf(e.owner, owner, "break") && !s.is("break ends whoever holds the key") {
		if e.owner != "" && s.is("Break of nobody prolongs the holder's lease") {
			e.expires = time.Now().Add(e.lastTTL)
		}
		return false
	}
	if s.is("break compares, then ends") {
		s.mu.Unlock()
		time.Sleep(40 * time.Millisecond) // sleeps: the lease may end meanwhile
		s.mu.Lock()
		s.expireLocked(key, e, time.Now())
	}
	if len(e.queue) == 0 {
		s.forgetsToken("token is forgotten with a broken lease that nobody waits for", key)
	}
	s.breakQueue(key, e)
	s.recordsLocked("store keeps a record of each broken lease")
	e.broken, e.wasBroken, e.brokenOwner = true, true, owner
	s.endsOthers("timer of a broken lease ends the next one, which others wait for", key, e, e.expires)
	switch {
	case s.is("break ends nothing"):
	case s.is("break wakes nobody"):
		e.owner, e.expires = "", time.Time{}
	case len(e.queue) > 0 && s.is("attempt just after a Break passes those who wait"):
		e.owner, e.expires = "", time.Time{}
		time.AfterFunc(15*time.Millisecond, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if e.owner == "" {
				s.endLocked(key, e)
			}
		})
	default:
		if e.waited {
			s.shuts(e, shutBroken)
		}
		if len(e.queue) > 0 && s.is("break wakes the next waiter by a timer") {
			e.queue[0].silenced = true
		}
		silence(e.queue, func(p *place) bool { return p.Shared && s.is(brokenWriterPolls) })
		e.measured.one = s.is(breakLetsOneIn)
		s.removeLocked(key, e, true)
		e.measured.one = false
	}
	return true
}
