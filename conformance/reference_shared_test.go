package conformance_test

import (
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// A reader is a shared lease, with its own expiry and timer.
type reader struct {
	owner   string
	client  *client
	token   uint64
	granted time.Time
	expires time.Time
	ttl     time.Duration
	waited  bool // granted to an owner that may have waited
	parked  bool // it had waited
	before  bool // it is older than the last restart
	beside  bool // it had waited, and entered beside others
	sibling bool // its client had another
	renewed time.Time
	timer   *time.Timer

	renewals  int     // number of renewals
	resumedBy *client // the last client that resumed the lease
}

func (e *entry) readerIndex(owner string) int {
	return slices.IndexFunc(e.readers, func(r *reader) bool { return r.owner == owner })
}

// reader returns the shared lease of owner, or nil if there is none.
func (e *entry) reader(owner string) *reader {
	if i := e.readerIndex(owner); i >= 0 {
		return e.readers[i]
	}
	return nil
}

// readerOf is readerIndex for a request by owner. With a bug, it may return the lease of an owner that looks alike.
func (s *server) readerOf(e *entry, owner string) int {
	cut := func(o string) string { return o[:min(len(o), 64)] }
	return slices.IndexFunc(e.readers, func(r *reader) bool {
		switch {
		case s.is("reader is known by a prefix"):
			return strings.HasPrefix(r.owner, owner)
		case s.is("readers are alike in any case"):
			return strings.EqualFold(r.owner, owner)
		case s.is("readers are trimmed of blanks"):
			return strings.TrimSpace(r.owner) == strings.TrimSpace(owner)
		case s.is("readers are cut at 64 bytes"):
			return cut(r.owner) == cut(owner)
		}
		return r.owner == owner
	})
}

// isHeld reports whether a lease of either mode holds the key.
func (e *entry) isHeld(now time.Time) bool {
	return e.owner != "" && now.Before(e.expires) ||
		slices.ContainsFunc(e.readers, func(r *reader) bool { return now.Before(r.expires) })
}

// acquireAmongReaders serves a shared request, and any request for a key that readers hold.
func (s *server) acquireAmongReaders(
	key string, e *entry, r backend.Request, c *client, now time.Time,
) (granted, *place, backend.Holder) {
	var own *reader
	if i := s.readerOf(e, r.Owner); i >= 0 {
		own = e.readers[i]
	}
	if s.is("repeated shared request adds a reader") {
		own = nil
	}
	switch {
	case own != nil:
		s.extendReader(key, e, own, now.Add(r.TTL))
		return granted{own.token, now}, nil, backend.Holder{}
	case r.Shared && s.readerMayEnter(e, r, c) && s.enteredWith(key, e, r, c):
		return s.enterLocked(key, e, r, c, now), nil, backend.Holder{}
	case !r.Shared && s.writerMayEnter(e, c):
		return s.grantLocked(key, e, r, c, now), nil, backend.Holder{}
	case !r.Wait:
		if r.Shared {
			s.recordsLocked("store keeps a record of each refused reader")
		}
		if r.Shared {
			s.refusesReader(e, r, now)
			s.refusesLate(e)
		}
		s.refuseAmongReaders(key, e, r, c)
		s.cutsReaders(key, e, r)
		return granted{}, nil, s.refusedAmong(e, r, s.refusalHolder(e, now))
	}
	p := &place{Request: r, client: c, turn: make(chan granted, 1), since: now, beside: len(e.readers) > 0}
	if r.Shared && s.is("waiting reader's token is from its arrival") {
		p.token = s.nextToken(key, c)
	}
	if s.dropDead(e) && r.Shared && s.readerMayEnter(e, r, c) {
		return s.enterLocked(key, e, r, c, now), nil, backend.Holder{}
	}
	if r.Shared && len(key) > 200 && s.is("reader that waits for a key over 200 bytes is not woken") {
		return granted{}, p, backend.Holder{}
	}
	s.enqueueLocked(key, e, p)
	s.armAtReaders(key, e)
	return granted{}, p, backend.Holder{}
}

// readerMayEnter reports whether no exclusive lease holds the key and no exclusive request waits.
func (s *server) readerMayEnter(e *entry, r backend.Request, c *client) bool {
	switch {
	case e.owner != "" && s.is("reader enters beside a writer"),
		e.owner != "" && e.client == c && s.is("reader enters beside a writer of its own client"), s.entersOddly(e):
		return true
	case e.owner != "", s.shutsOut(e, r), s.intentRefuses(e, r):
		return false
	case s.is("readers exclude each other") && len(e.readers) > 0,
		s.is("readers of one client exclude each other") &&
			slices.ContainsFunc(e.readers, func(r *reader) bool { return r.client == c }),
		s.is("at most 150 readers at once") && len(e.readers) >= 150,
		s.is("readers do not share a key with those from before a restart") &&
			slices.ContainsFunc(e.readers, func(r *reader) bool { return r.before }),
		e.odd.left && !r.Wait && len(e.readers) > 0:
		return false
	case s.is("reader that queues again after a cut passes a waiting writer") && r.Wait && s.isAsked(c, r.Owner),
		s.is("new reader overtakes a waiting writer"),
		s.is("attempt of a reader ignores the queue") && !r.Wait,
		s.is(restartForgetsWait) && !r.Wait && s.restarts > 0,
		e.marks.lifted && !r.Wait,
		s.is(agedWriter) && !slices.ContainsFunc(e.queue,
			func(p *place) bool { return !p.Shared && time.Since(p.since) < aged30 }),
		s.is(writerMinutes) && !slices.ContainsFunc(e.queue,
			func(p *place) bool { return !p.Shared && time.Since(p.since) < aged5 }),
		s.is("shared attempt passes a waiting writer after a Break") && !r.Wait && e.broken,
		s.is("reader that waits ignores the queue") && r.Wait,
		s.is("reader of a client that reads already overtakes a waiting writer") &&
			slices.ContainsFunc(e.readers, func(r *reader) bool { return r.client == c }),
		s.is("reader looks at the last in the queue alone") && len(e.queue) > 0 && e.queue[len(e.queue)-1].Shared,
		s.is("one reader in five overtakes a waiting writer") && s.oneIn(5):
		return true
	}
	return !slices.ContainsFunc(e.queue, func(p *place) bool { return !p.Shared })
}

// writerMayEnter reports whether nobody holds the key. Then nobody waits either, because the first waiter would hold
// the key.
func (s *server) writerMayEnter(e *entry, c *client) bool {
	if e.owner != "" {
		return false
	}
	switch {
	case s.is("writer enters beside readers"), s.writerEntersOddly(e),
		s.is("writer enters beside a second reader") && len(e.readers) > 1,
		s.is("writer enters beside readers that had waited") && len(e.readers) > 0 && e.readers[0].waited,
		s.is("writer enters beside more than 128 readers") && len(e.readers) > 128,
		s.is("count of readers is a byte") && len(e.readers)%256 == 0,
		s.is("writer enters beside readers of its own client") &&
			!slices.ContainsFunc(e.readers, func(r *reader) bool { return r.client != c }):
		return true
	}
	return len(e.readers) == 0
}

// refuseAmongReaders applies the bugs of a refused attempt on a key that readers hold.
func (s *server) refuseAmongReaders(key string, e *entry, r backend.Request, c *client) {
	switch {
	case r.Shared && s.is("refused attempt of a reader prolongs the readers"),
		!r.Shared && s.is("refused attempt of a writer prolongs the readers"):
		for _, other := range e.readers {
			s.extendReader(key, e, other, other.expires.Add(100*time.Millisecond))
		}
	case r.Shared && s.is("refused attempt of a reader stays in the queue"),
		!r.Shared && s.is("refused attempt of a writer keeps new readers out"):
		s.enqueueLocked(key, e, &place{Request: r, client: c, turn: make(chan granted, 1), since: time.Now()})
	}
}

// enterLocked adds a reader.
func (s *server) enterLocked(key string, e *entry, r backend.Request, c *client, now time.Time) granted {
	read := &reader{owner: r.Owner, client: c, granted: now, ttl: r.TTL,
		expires: now.Add(s.keepBriefReader(r, s.keepReader(r.TTL))),
		waited:  r.Wait, sibling: e.readsAlready(c)}
	if s.is(readerClock) {
		read.expires = read.expires.Add(c.skew)
	}
	s.entersAlone(e, read, c)
	read.token = s.sharedToken(key, e, c)
	e.readers = append(e.readers, read)
	s.entered(e, read)
	read.timer = time.AfterFunc(time.Until(read.expires)+s.readerIsLate(), func() { s.readerTimer(key, e) })
	for _, other := range e.readers {
		switch {
		case s.is("new reader prolongs the others") && other.expires.Before(read.expires),
			s.is("new reader's TTL replaces that of the others"),
			s.is("new reader's TTL cuts longer ones") && other.expires.After(read.expires):
			s.extendReader(key, e, other, read.expires)
		case s.is("readers end with the last that came, at the latest"):
			end := other.granted.Add(other.ttl)
			if read.expires.Before(end) {
				end = read.expires
			}
			s.extendReader(key, e, other, end)
		}
	}
	return granted{read.token, now}
}

// sharedToken returns the token of a new reader.
func (s *server) sharedToken(key string, e *entry, c *client) uint64 {
	switch {
	case s.is("reader gets the token of the last lease"):
		if s.tokens[key] > 0 {
			return s.tokens[key]
		}
	case s.is("readers at once have the token of the first") && len(e.readers) > 0:
		return e.readers[0].token
	case s.is("token of a reader does not move the counter"):
		before := s.tokens[key]
		token := s.nextToken(key, c)
		s.tokens[key] = before
		return token
	case s.is("tokens of readers are counted apart"):
		return s.nextToken(key+", shared", c)
	}
	return s.nextToken(key, c)
}

func (s *server) keepReader(ttl time.Duration) time.Duration {
	switch {
	case s.is("reader's lease ends after 9/10 of its TTL"):
		return ttl * 9 / 10
	case s.is("reader's lease ends a second late"):
		return ttl + time.Second
	case s.is("reader's lease never ends"):
		return noExpiry
	case s.is("reader's TTL in milliseconds is an int32"):
		return time.Duration(int32(ttl/time.Millisecond)) * time.Millisecond
	case s.is("reader's TTL is cut to seconds"):
		return max(ttl.Truncate(time.Second), 100*time.Millisecond)
	case s.is("reader's lease lasts for 10 s"):
		return 10 * time.Second
	}
	return ttl
}

// readerTimer removes the readers of key that have expired.
func (s *server) readerTimer(key string, e *entry) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.measured.fired && s.is(oneTimer) {
		return
	}
	e.measured.fired = true
	if s.is("end of a reader's TTL wakes nobody", readersEndAtRequest) || s.timerStopped(time.Now()) ||
		s.is("end of readers is noticed when they were to end as the writer came") && len(e.queue) > 0 ||
		s.is("at most 16 dead readers are removed at once") && len(e.readers) > 0 &&
			time.Now().Before(e.latestReader().expires) {
		return
	}
	s.expireLocked(key, e, time.Now())
}

func (s *server) extendReader(key string, e *entry, r *reader, expires time.Time) {
	r.expires = expires
	r.timer.Stop()
	r.timer = time.AfterFunc(time.Until(expires)+s.readerIsLate(), func() { s.readerTimer(key, e) })
}

func (s *server) expireReaders(key string, e *entry, now time.Time) {
	for n, r := range slices.Clone(e.readers) {
		if n >= 16 && s.is("at most 16 dead readers are removed at once") || now.Before(r.expires) && s.is(purgeStops) {
			return
		}
		if s.is("readers end together, with the last") && now.Before(e.latestReader().expires) ||
			s.is("lease of a killed reader never ends") && r.client.wire != nil && r.client.wire.isDead() ||
			s.is("dead reader stays while others read") && len(e.readers) > 1 {
			continue
		}
		if now.Before(r.expires) {
			continue
		}
		if i := e.readerIndex(r.owner); i >= 0 {
			if s.is("end of one reader's TTL ends all readers") {
				s.removeReaders(key, e)
				return
			}
			if s.countsLong(key, e, now) {
				return
			}
			s.ended = append(s.ended, endedReader{key, r})
			e.odd.expired++
			e.measured.dead++
			s.lifts(e, markExpired)
			e.odd.ranOut = len(e.readers) == 1
			s.recordsLocked("store keeps a record of each expired reader")
			if len(e.readers) == 1 && s.is("tokens are forgotten with the last dead reader") {
				delete(s.tokens, key)
			}
			s.liftsReaders(e)
			s.removeReader(key, e, i)
		}
	}
}

// removeReader ends one reader. After the last reader, the next waiter is granted the key.
func (s *server) removeReader(key string, e *entry, i int) {
	r := e.readers[i]
	r.timer.Stop()
	e.readers = slices.Delete(e.readers, i, i+1)
	s.slowsHead(e, r)
	switch {
	case s.is("first end of a reader is a waiting writer's turn"), s.isWatched(e, r),
		s.is("count of readers is a byte") && len(e.readers)%256 == 0:
	case len(e.readers) > 0 || e.owner != "":
		return
	}
	if !s.leavesGap(key, e) {
		s.endLocked(key, e)
	}
}

// removeReaders ends all readers.
func (s *server) removeReaders(key string, e *entry) {
	for len(e.readers) > 0 {
		s.removeReader(key, e, len(e.readers)-1)
	}
}

// readersTurn grants a key that has become free to the readers at the head of the queue. It reports whether there were
// any.
func (s *server) readersTurn(key string, e *entry) bool {
	if len(e.queue) == 0 || !e.queue[0].Shared {
		return false
	}
	switch {
	case s.is("reader waits for a later writer") && slices.ContainsFunc(e.queue, func(p *place) bool { return !p.Shared }):
		i := slices.IndexFunc(e.queue, func(p *place) bool { return !p.Shared })
		p := e.queue[i]
		e.queue = slices.Delete(e.queue, i, i+1)
		p.turn <- s.grantLocked(key, e, p.Request, p.client, time.Now())
	case s.is("turn of readers parks them"):
	default:
		s.admitLocked(key, e)
		s.takesAlongWriter(key, e)
	}
	return true
}

// admitLocked grants the key to the readers at the head of the queue, unless an exclusive lease holds it.
func (s *server) admitLocked(key string, e *entry) {
	if s.is("all waiting readers enter at once") && e.owner == "" && len(e.queue) > 0 && e.queue[0].Shared {
		e.readersFirst()
	}
	before := len(e.readers)
	beside := before > 0
	defer func() { s.endsTogether(key, e, before) }()
	var first time.Duration
	for n := 0; e.owner == "" && len(e.queue) > 0 && e.queue[0].Shared; n++ {
		if n > 63 && s.is("at most 64 waiting readers enter at once") ||
			n > 0 && (s.is("one waiting reader enters at a time") || e.measured.one) ||
			n > 127 && s.is(enter128) || n > 15 && s.is("at most 16 waiting readers enter at once") {
			return
		}
		p := e.queue[0]
		r := p.Request
		if r.TTL = s.turnTTL(e, p); n == 0 {
			first = r.TTL
		} else if s.is("readers that enter together have the TTL of the first") {
			r.TTL = first
		}
		e.queue = e.queue[1:]
		if s.is("reader's place in the queue ends with its TTL") && time.Since(p.since) > p.TTL {
			continue
		}
		from := time.Now()
		if s.is("waiting reader's TTL counts from its arrival") ||
			beside && s.is("TTL of a reader behind a writer that leaves counts from its arrival") {
			from = p.since
		}
		g := s.enterLocked(key, e, r, p.client, from)
		s.parked(key, e, beside)
		if p.token != 0 {
			g.token = p.token
		}
		p.turn <- g
	}
}

// admitAfter is admitLocked after a waiting request has left the queue.
func (s *server) admitAfter(key string, e *entry, left backend.Request) {
	if !left.Shared {
		s.stopsTimers(e, leavingStopsTimers)
	}
	switch {
	case s.is("readers behind a writer that leaves stay parked"),
		s.is("more than 20 readers behind a writer that leaves stay parked") && len(e.queue) > 20,
		s.is("readers behind a writer that leaves stay parked if another reader has left before") && e.readerLeft:
	case s.is("one reader enters behind a writer that leaves") && len(e.queue) > 0 && e.queue[0].Shared && e.owner == "":
		p := e.queue[0]
		e.queue = e.queue[1:]
		p.turn <- s.enterLocked(key, e, p.Request, p.client, time.Now())
	default:
		s.admitLocked(key, e)
	}
	e.readerLeft = e.readerLeft || left.Shared
}
