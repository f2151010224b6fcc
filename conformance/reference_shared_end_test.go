package conformance_test

import (
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// An endedReader is a shared lease that has expired, kept for mutants that revive it.
type endedReader struct {
	key string
	*reader
}

// renewReader makes the shared lease of owner end ttl from now. It reports whether owner has a shared lease of the key.
func (s *server) renewReader(key, owner string, ttl time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.sharedName(s.name(key))
	e, now := s.entryLocked(key), time.Now()
	s.expireLocked(key, e, now)
	s.rewritesReaders(e)
	at := s.readerOf(e, owner)
	if at < 0 {
		return s.renewEndedReader(key, e, owner, now.Add(ttl))
	}
	if s.givesWay(e) {
		return false
	}
	if s.is(renewalFirstTTL) {
		ttl = e.readers[at].ttl
	}
	if ttl > 2*time.Second && s.is("renewal of a reader is cut to multiples of 100 ms") {
		ttl = ttl.Truncate(100 * time.Millisecond)
	}
	r, expires := e.readers[at], now.Add(s.keepReader(ttl))
	s.lifts(e, markRenewed)
	s.recordsLocked(keepsRenewed)
	if end := r.granted.Add(30 * time.Second); end.Before(expires) && s.is(agedReader) {
		expires = end
	}
	for _, other := range e.readers {
		switch {
		case other == r:
		case s.is("renewal of a reader prolongs the others") && other.expires.Before(expires),
			s.is("renewal of a reader prolongs those of its client") && other.client == r.client &&
				other.expires.Before(expires),
			s.is("renewal of a reader cuts longer ones") && other.expires.After(expires):
			s.extendReader(key, e, other, expires)
		}
	}
	switch {
	case s.renewsSeldom(e, r), s.is(renewedBelow) && expires.After(r.expires) && expires.Before(e.latestReader().expires):
	case len(e.readers) > 1 && expires.Before(r.expires) && s.is(shortensLate):
		r.expires = expires
	case s.is("readers are not renewed"),
		s.is("one reader of a key is renewed") && r != e.readers[0],
		s.is("reader that has entered beside others is not renewed") && r.beside,
		s.is("reader is not renewed while a writer waits") && len(e.queue) > 0,
		s.is("reader's renewal never shortens") && expires.Before(r.expires):
	default:
		s.extendReader(key, e, r, expires)
		e.odd.longest, r.renewed = e.latestReader().expires, now
	}
	return true
}

// renewEndedReader applies the bugs of a renewal by an owner that has no shared lease.
func (s *server) renewEndedReader(key string, e *entry, owner string, expires time.Time) bool {
	switch {
	case s.is("stale reader's renewal revives its lease", "renewal revives a reader that has released") && e.owner == "",
		s.is("stale reader's renewal revives its lease beside a writer"),
		s.is("stale reader's renewal revives its lease beside others") && e.owner == "" && len(e.readers) > 0:
		for _, old := range s.ended {
			if old.key == key && old.owner == owner {
				e.readers = append(e.readers, old.reader)
				s.extendReader(key, e, old.reader, expires)
				return true
			}
		}
	case s.is("stale reader's renewal succeeds while others read"):
		return len(e.readers) > 0
	case s.is("stale reader's renewal prolongs the others"):
		for _, other := range e.readers {
			s.extendReader(key, e, other, expires)
		}
	case s.is("stale reader's renewal prolongs the writer") && e.owner != "":
		e.expires = expires
		s.armLocked(key, e)
		return true
	case s.is("stale reader's renewal drops who waits first"):
		e.queue = e.queue[min(1, len(e.queue)):]
	}
	return false
}

// releaseReader removes the shared lease of owner, or its place in the queue. It reports whether there was any.
func (s *server) releaseReader(key, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.sharedName(s.name(key))
	e := s.entryLocked(key)
	s.expireLocked(key, e, time.Now())
	s.releasesJoined(key, owner)
	s.releasesLike(key, e, owner)
	if i := s.readerOf(e, owner); i >= 0 {
		if s.endsSilently(e, i) {
			return true
		}
		if time.Since(e.readers[i].renewed) < time.Millisecond &&
			s.is("release of a reader that meets its renewal is missed") {
			return true
		}
		if s.is("release sent again ends another reader") {
			s.released[key+owner] = true
		}
		if s.is("renewal revives a reader that has released") {
			s.ended = append(s.ended, endedReader{key, e.readers[i]})
		}
		s.recordsLocked("store keeps a record of each released reader")
		s.releaseReaderAt(key, e, i)
		return true
	}
	if i := slices.IndexFunc(e.queue, func(p *place) bool { return p.Owner == owner }); i >= 0 {
		if s.is("cancelled reader stays in the queue") {
			return true
		}
		s.recordsLocked("store keeps a record of each cancelled wait of a reader")
		left, c := e.queue[i].Request, e.queue[i].client
		e.queue = slices.Delete(e.queue, i, i+1)
		if s.is("cancelled reader takes the next in the queue along") && i < len(e.queue) {
			e.queue = slices.Delete(e.queue, i, i+1)
		}
		s.leavesAmong(key, e, left, c)
		s.admitAfter(key, e, left)
		return true
	}
	s.releasedTwice(key, e, owner)
	switch {
	case s.endsWriterOf(key, e, owner):
		return true
	case s.is("stale release of a reader ends another") && len(e.readers) > 0:
		s.removeReader(key, e, 0)
	case s.is("stale release of a reader ends the writer") && e.owner != "", s.endsStranded(key, e, owner):
		s.endLocked(key, e)
		return true
	}
	return false
}

func (s *server) releaseReaderAt(key string, e *entry, i int) {
	c := e.readers[i].client
	s.leavesTimer(key, e, e.readers[i])
	switch {
	case s.releasesWith(key, e, i):
	case s.is("one release ends all readers"):
		s.removeReaders(key, e)
	case s.is("release ends the readers of its client"):
		for j := len(e.readers) - 1; j >= 0; j-- {
			if e.readers[j].client == c {
				s.removeReader(key, e, j)
			}
		}
	case s.is("release ends the reader that came last"):
		s.removeReader(key, e, len(e.readers)-1)
	case s.is("last reader's release wakes nobody") && len(e.readers) == 1:
		e.readers[i].timer.Stop()
		e.readers = nil
	case s.is("last reader's release is noticed at the end of its TTL") && len(e.readers) == 1 && len(e.queue) > 0:
	case s.is("release of a reader that came first wakes the writer") && i == 0:
		s.removeReader(key, e, i)
		if len(e.readers) > 0 && len(e.queue) > 0 {
			s.endLocked(key, e)
		}
	default:
		s.releasesAmong(key, e, i)
		s.removeReader(key, e, i)
	}
}

// breakReader ends the shared lease of owner, and reports whether there was one.
func (s *server) breakReader(key string, e *entry, owner string) bool {
	i := s.brokenPlace(key, s.readerOf(e, owner))
	if i < 0 && s.breaksOtherKey(owner) {
		return true
	}
	switch {
	case len(e.readers) == 0, s.is("break finds no reader"):
		return false
	case s.is("break ends all readers") && i >= 0:
		s.removeReaders(key, e)
		return true
	case s.is("break ends any reader") && i < 0:
		s.removeReader(key, e, 0)
		return true
	case i < 0:
		return s.is(breaksDead) && s.hasExpired(key, owner)
	case s.is(breakByPlace):
		s.breaksByPlace(key, e, i)
	case s.is("break of the last reader wakes nobody") && len(e.readers) == 1:
		e.readers[i].timer.Stop()
		e.readers = nil
	default:
		s.recordsLocked("store keeps a record of each broken reader")
		s.forgetsToken("tokens are forgotten with a broken reader", key)
		r := e.readers[i]
		notifyHolder := s.notifyReader(r, true)
		if len(e.readers) > 1 && s.is(brokenUnnotified) {
			notifyHolder = func() {}
		}
		if len(e.readers) == 1 && len(e.queue) > 0 && s.is(readerBreakPolls) {
			e.queue[0].silenced = true
		}
		s.breaksAmong(e)
		e.marks.broken = len(e.readers) == 1 && len(e.queue) == 0
		s.removeReader(key, e, i)
		notifyHolder()
		s.notifiesOthers(e, r)
	}
	return true
}

// dropPlaces removes the places of a killed process from the queues of keys that readers hold.
func (s *server) dropPlaces(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is("readers behind a killed writer stay parked") {
		return
	}
	for key, e := range s.keys {
		if s.is("killed writer keeps shared attempts out until a reader waits") &&
			!slices.ContainsFunc(e.queue, func(p *place) bool { return p.Shared }) {
			continue
		}
		if isOf := func(p *place) bool { return p.client == c }; len(e.readers) > 0 &&
			slices.ContainsFunc(e.queue, isOf) {
			if s.is("killed writer that was not the first is not noticed") && !isOf(e.queue[0]) {
				continue
			}
			if i := slices.IndexFunc(e.queue, isOf); s.is(killLeavesPlace) {
				e.queue = slices.Delete(e.queue, i, i+1)
			} else {
				e.queue = slices.DeleteFunc(e.queue, isOf)
			}
			s.admitLocked(key, e)
		}
	}
}

func (e *entry) latestReader() *reader {
	return slices.MaxFunc(e.readers, func(x, y *reader) int { return x.expires.Compare(y.expires) })
}

// sharedHolder describes the readers of a key.
func (e *entry) sharedHolder(now time.Time) backend.Holder {
	r := e.latestReader()
	return backend.Holder{Owner: r.owner, Token: r.token, TTL: r.expires.Sub(now), Waiters: len(e.queue),
		Shared: len(e.readers)}
}

// refusalHolder returns the holder that a refused attempt reports, if the key has readers or the attempt is shared.
func (s *server) refusalHolder(e *entry, now time.Time) backend.Holder {
	h := s.oddRefusal(e, s.heldBy(e, now))
	if s.is("HeldError does not count readers") {
		h.Shared = 0
	}
	return h
}

// inspectReaders returns the result of Inspect for a key that readers hold.
func (s *server) inspectReaders(e *entry, now time.Time) backend.Holder {
	h := s.oddInspect(e, e.holder(now), now)
	switch {
	case s.is("Inspect does not count readers"):
		h.Shared = 1
	case s.is("Inspect reports readers as one exclusive lease"):
		h.Shared = 0
	case s.is("Inspect counts waiting readers as readers"):
		for _, p := range e.queue {
			if p.Shared {
				h.Shared++
			}
		}
	case s.is("Inspect names the reader that came first"):
		r := e.readers[0]
		h.Owner, h.Token, h.TTL = r.owner, r.token, r.expires.Sub(now)
	case s.is("Inspect returns the TTL of the reader that ends first"):
		for _, r := range e.readers {
			h.TTL = min(h.TTL, r.expires.Sub(now))
		}
	case s.is(readerWhole):
		h.TTL = max(h.TTL, e.latestReader().ttl)
	case s.is("Inspect of readers is free"):
		return backend.Holder{}
	}
	return h
}

// releaseMode is releaseReader if shared is set, and release otherwise.
func (s *server) releaseMode(key, owner string, shared bool) bool {
	if shared {
		return s.releaseReader(key, owner)
	}
	return s.release(key, owner)
}

// renewed renews l at the server, and reports whether l was live there.
func (c *client) renewed(l *kit.Life, ttl time.Duration) bool {
	if !l.Shared() {
		return c.server.renew(l.Key(), l.Owner(), c, ttl)
	}
	if c.is(resumeEndsFirst) && c.isResumed(l) {
		return false
	}
	ok := c.server.renewReader(l.Key(), l.Owner(), ttl)
	if !ok && c.is("renewal that finds a reader lost ends the others of its client") {
		c.losesReaders(l)
	}
	return ok
}

// losesReaders marks the client's other shared leases of l's key as lost, as a bug.
func (c *client) losesReaders(l *kit.Life) {
	c.mu.Lock()
	lives := slices.Clone(c.lives)
	c.mu.Unlock()
	for _, other := range lives {
		if other != l && other.Shared() && other.Key() == l.Key() {
			other.Lose()
		}
	}
}
