package conformance_test

import (
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// oddReaders is what the server remembers of the readers of a key, for bugs only.
type oddReaders struct {
	first   backend.Holder // the reader that came when nobody held the key
	longest time.Time      // the latest end of all readers since then, even if released
	shared  bool           // the last holders were readers
	left    bool           // a waiting writer has timed out, or its client was closed
	ghosts  int            // readers that are counted and have ended
	gap     bool           // the last reader has just released, and the first waiter has not been granted the key yet
	parks   bool           // a waiting writer has timed out, as a bug
	broken  bool           // the lease of a reader was broken
	evicted bool           // the readers were evicted
	expired int            // readers that have expired
	ranOut  bool           // the last reader has expired, and nobody has held the key since
}

// entered records that r has entered. The readers before it, if any, still hold the key.
func (s *server) entered(e *entry, r *reader) {
	if len(e.readers) == 1 {
		e.measured.dead, e.measured.fired = 0, false
		e.odd = oddReaders{first: backend.Holder{Owner: r.owner, Token: r.token}, longest: r.expires, shared: true}
	}
	if e.odd.longest.Before(r.expires) {
		e.odd.longest = r.expires
	}
}

// readerIsLate returns how long after the end of a reader the server removes it by itself.
func (s *server) readerIsLate() time.Duration {
	if s.is("shared attempt that meets dead readers passes those who wait",
		"reader that comes to wait as readers have died passes those who wait",
		"attempt of a writer that meets dead readers passes those who wait") {
		return 15 * time.Millisecond
	}
	return 0
}

// overtakesWaiters grants r a key whose readers have expired, or a shared r a key whose writer has, although others
// wait for the key. This is a bug. It reports whether it did.
func (s *server) overtakesWaiters(
	key string, e *entry, r backend.Request, c *client, now time.Time,
) (g granted, overtook bool) {
	isOver := func(r *reader) bool { return !now.Before(r.expires) }
	deadReaders := len(e.readers) > 0 && !slices.ContainsFunc(e.readers, func(r *reader) bool { return !isOver(r) })
	deadWriter := e.owner != "" && !now.Before(e.expires)
	switch {
	case len(e.queue) == 0:
		return g, false
	case e.odd.gap && e.owner == "" && len(e.readers) == 0:
		if r.Wait {
			return g, false
		}
		e.odd.gap = false
		if r.Shared {
			return s.enterLocked(key, e, r, c, now), true
		}
		return s.grantLocked(key, e, r, c, now), true
	case deadReaders && r.Shared && !r.Wait && s.is("shared attempt that meets dead readers passes those who wait"),
		deadReaders && r.Shared && r.Wait && s.is("reader that comes to wait as readers have died passes those who wait"),
		deadWriter && r.Shared && !r.Wait && s.is("shared attempt that meets a dead writer passes those who wait"),
		deadWriter && r.Shared && r.Wait && s.is("reader that comes to wait as a writer has died passes those who wait"):
		s.forgetHolders(e)
		return s.enterLocked(key, e, r, c, now), true
	case deadReaders && !r.Shared && !r.Wait && s.is("attempt of a writer that meets dead readers passes those who wait"):
		s.forgetHolders(e)
		return s.grantLocked(key, e, r, c, now), true
	}
	return g, false
}

// forgetHolders ends all leases of e and wakes nobody.
func (s *server) forgetHolders(e *entry) {
	for _, r := range e.readers {
		r.timer.Stop()
	}
	e.readers, e.owner, e.client = nil, "", nil
}

// sharedName returns the name under which the server keeps the readers of key.
func (s *server) sharedName(key string) string {
	switch {
	case s.is("readers of keys over 200 bytes are kept under the first 200"):
		return key[:min(len(key), 200)]
	case s.is("readers of a key are kept under the key in lower case"):
		return strings.ToLower(key)
	case s.is("readers of a key are kept under the key without its blanks"):
		return strings.TrimSpace(key)
	}
	return key
}

// turnTTL returns for how long the server keeps the lease of p, one of the readers at the head of the queue.
func (s *server) turnTTL(e *entry, p *place) (ttl time.Duration) {
	ttl = p.TTL
	if ttl > time.Second && s.is("TTL of a reader that has waited is cut to seconds") {
		return ttl.Truncate(time.Second)
	}
	if s.is("readers that enter together have the longest TTL of them") {
		for _, other := range e.queue {
			if !other.Shared {
				break
			}
			ttl = max(ttl, other.TTL)
		}
	}
	return ttl
}

// countsLong reports whether the end of a reader is put off to that of the longest, although it has released, as a bug.
func (s *server) countsLong(key string, e *entry, now time.Time) bool {
	if len(e.readers) != 1 || !now.Before(e.odd.longest) ||
		!s.is("key of readers lasts as long as the longest of them, released or not") {
		return false
	}
	s.extendReader(key, e, e.readers[0], e.odd.longest)
	return true
}

// cleansUp records that a client cleans up after r, which has ended in the given way, if the store has a bug that
// depends on it.
func (s *server) cleansUp(r backend.Request, how string) {
	if r.Shared && s.is("reader that is cancelled at its turn wakes nobody",
		"clean-up of an unanswered reader wakes nobody", "reader that is cancelled at its turn is still counted") {
		s.withdrawn.Store(r.Owner, how)
	}
}

// endsSilently removes reader i of e, and wakes nobody, if a bug ends it that way. It reports whether it did.
func (s *server) endsSilently(e *entry, i int) bool {
	how, _ := s.withdrawn.Load(e.readers[i].owner)
	switch {
	case how == "cancelled" && s.is("reader that is cancelled at its turn wakes nobody"),
		how == "abandoned" && s.is("clean-up of an unanswered reader wakes nobody"):
		e.readers[i].timer.Stop()
		e.readers = slices.Delete(e.readers, i, i+1)
		return true
	case how == "cancelled" && s.is("reader that is cancelled at its turn is still counted"):
		e.odd.ghosts++
	}
	return false
}

// releasedTwice ends another reader if owner has released its lease before, as a bug. It reports whether owner had.
func (s *server) releasedTwice(key string, e *entry, owner string) {
	if s.is("release sent again ends another reader") && s.released[key+owner] && len(e.readers) > 0 {
		s.removeReader(key, e, 0)
	}
}

// slowsHead makes the waiter at the head of the queue of e look every 300 ms, as a bug, when the last reader r ends.
func (s *server) slowsHead(e *entry, r *reader) {
	if len(e.readers) == 0 && len(e.queue) > 0 &&
		(s.is("writer looks every 300 ms if the first of its readers does not end last") && r.owner != e.odd.first.Owner ||
			s.is("writer behind readers that had waited looks every 300 ms") && r.parked) {
		e.queue[0].slow = true
	}
}

// leavesTurn removes the exclusive lease that was just granted to owner, as a bug, without waking the readers behind
// it.
func (s *server) leavesTurn(key, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(s.name(key))
	if e.owner == owner && len(e.queue) > 0 && e.queue[0].Shared {
		e.owner, e.client = "", nil
	}
}

// writerLeft records that a waiting writer has left in the given way.
func (s *server) writerLeft(r backend.Request, how string) {
	if how == "ended by Close" {
		s.closesBehind(r)
	}
	attempts := s.is("shared attempts are refused beside readers once a waiting writer has " + how)
	waits := how == "timed out" && s.is(timeoutParks)
	if r.Shared || !attempts && !waits {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	odd := &s.entryLocked(s.name(r.Key)).odd
	odd.left, odd.parks = odd.left || attempts, odd.parks || waits
}

// dropReadersOf ends the shared leases of c.
func (s *server) dropReadersOf(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		for i := len(e.readers) - 1; i >= 0; i-- {
			if e.readers[i].client == c {
				s.removeReader(key, e, i)
			}
		}
	}
}

// dropDead removes the places of dead processes from the queue of e, for a bug: see dropPlaces. It reports whether
// there were any.
func (s *server) dropDead(e *entry) bool {
	before := len(e.queue)
	if s.is("killed writer keeps shared attempts out until a reader waits") {
		e.queue = slices.DeleteFunc(e.queue, func(p *place) bool { return p.client.wire != nil && p.client.wire.isDead() })
	}
	return len(e.queue) < before
}

// armAtReaders sets a timer to the end of the readers of e as it is now, for a bug: it is not set again when one of
// them is renewed.
func (s *server) armAtReaders(key string, e *entry) {
	if len(e.readers) == 0 || !s.is("end of readers is noticed when they were to end as the writer came") {
		return
	}
	time.AfterFunc(time.Until(e.latestReader().expires), func() {
		s.gate.RLock()
		defer s.gate.RUnlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expireLocked(key, e, time.Now())
	})
}

// keptWithLongest gives a writer the end of the readers before it, if that is later, as a bug.
func (s *server) keptWithLongest(e *entry) {
	if e.odd.shared && e.odd.longest.After(e.expires) && s.is("writer keeps the end of the readers before it") {
		e.expires = e.odd.longest
	}
	e.odd.shared, e.odd.ranOut = false, false
}

// oddInspect applies the bugs of Inspect for a key that readers hold.
func (s *server) oddInspect(e *entry, h backend.Holder, now time.Time) backend.Holder {
	switch {
	case s.is("Inspect ranks readers by the ends of their grants"):
		r := slices.MaxFunc(e.readers, func(x, y *reader) int { return x.granted.Add(x.ttl).Compare(y.granted.Add(y.ttl)) })
		h.Owner, h.Token, h.TTL = r.owner, r.token, r.expires.Sub(now)
	case s.is("readers that had waited are still counted as waiters"):
		for _, r := range e.readers {
			if r.parked {
				h.Waiters++
			}
		}
	case s.is("Inspect of a key that waits for its next readers is free") &&
		slices.ContainsFunc(e.readers, func(r *reader) bool { return r.parked && r.client.isSilent() }):
		return backend.Holder{}
	}
	h.Shared += e.odd.ghosts
	return h
}

// oddRefusal applies the bugs of the holder in a HeldError.
func (s *server) oddRefusal(e *entry, h backend.Holder) backend.Holder {
	switch {
	case len(e.readers) == 0:
	case s.is("HeldError names the reader that came first, who may have left"):
		h.Owner, h.Token, h.TTL = e.odd.first.Owner, e.odd.first.Token, 0
	}
	return h
}

// rewritesReaders writes the readers of e back as they were a moment before, as a bug.
func (s *server) rewritesReaders(e *entry) {
	if !s.is("renewal writes back the readers that it found") {
		return
	}
	before := slices.Clone(e.readers)
	s.mu.Unlock()
	time.Sleep(100 * time.Microsecond) // sleeps: another request may be served meanwhile
	s.mu.Lock()
	e.readers = before
}

// sharers counts the shared leases of key.
func sharers(lives []*kit.Life, key string) (n int) {
	for _, l := range lives {
		if l.Shared() && l.Key() == key {
			n++
		}
	}
	return n
}

// unshared is a bug of a store that does not promise shared leases.
const unshared = "store without shared leases takes a reader that waits for a writer"

// resumesNoReader applies the bugs of a Resume by an owner that has no shared lease.
func (s *server) resumesNoReader(key string, e *entry, r backend.Request, now time.Time) (token uint64, held bool) {
	switch {
	case s.is("resume by a reader that waits succeeds") &&
		slices.ContainsFunc(e.queue, func(p *place) bool { return p.Shared && p.Owner == r.Owner }):
		return s.tokens[key], true
	case s.is("resume revives an expired reader of a free key") && e.owner == "" && len(e.readers) == 0:
		return s.revivesReader(key, e, r, now)
	}
	return s.resumesOther(key, e, r, now)
}
