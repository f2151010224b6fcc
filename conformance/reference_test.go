package conformance_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// A server is the reference store: a store in memory that keeps every rule and has every hook, so that no check is
// skipped for want of a hook. With a bug, it is a mutant: see mutants.
type server struct {
	bug      string
	likeness bool // the bug is one of likenessMutants; false saves most comparisons
	gate     gate // held for writing while frozen
	frozen   atomic.Bool
	stop     chan struct{} // closed at the end of the test, which ends leaked goroutines

	inFlight atomic.Int64 // requests in flight
	calls    atomic.Int64 // calls of a wrongStore

	mu          sync.Mutex
	keys        map[string]*entry
	tokens      map[string]uint64 // outlives a restart
	clients     int
	closed      int                  // number of closed clients
	grants      int                  // number of grants
	kick        chan struct{}        // closed by a restart, which makes waiters repeat their requests
	emptied     int                  // number of times that it has lost its data
	restarts    int                  // number of restarts
	nth         int                  // counts events, for bugs that affect one event in n
	full        bool                 // there is no room for more leases
	lastTTL     time.Duration        // of the last grant of any key
	stepped     time.Duration        // the sum of the steps of the clock
	records     int64                // number of records that a bug has left
	closedTwice bool                 // a client was closed a second time
	apart       bool                 // a member has returned and not caught up; only hooks use this field
	ended       []endedReader        // shared leases that have expired
	listeners   map[string][]*client // by key, as a bug
	slot        int64                // the present tenth of a second
	swept       int                  // leases that the store has tried to end in it

	released  map[string]bool // keys and owners of released shared leases, as a bug
	withdrawn sync.Map        // how owners whose clients cleaned up after them had ended: "cancelled", "abandoned"

	lastRestart time.Time

	created, creating bool // for bugs of first opens

	breaker atomic.Pointer[client] // whose Break is served, as a bug
	sharing sharing
}

type entry struct {
	owner         string
	client        *client
	token         uint64
	expires       time.Time
	released      time.Time
	queue         []*place
	readers       []*reader // leases that share the key
	readerLeft    bool      // a reader has left the queue
	odd           oddReaders
	granted       time.Time
	renewed       time.Time
	ttl           time.Duration  // of the last grant
	parked        bool           // a waiter was parked, as a bug
	left          bool           // a waiter has left the queue
	expired       bool           // the last lease expired, rather than being released
	evicted       bool           // the last lease was evicted
	refusedAt     time.Time      // when an attempt last got refusedHolder
	refusedHolder backend.Holder // the holder that refused attempts report for a while, as a bug
	gaveUp        string         // the last owner that released the key
	broken        bool           // a lease of the key was broken
	waited        bool           // the lease was granted to an owner that may have waited
	late          bool           // an attempt came while the store was full, as a bug
	timer         *time.Timer    // ends an expired lease while others wait
	last          string         // the last owner whose lease expired
	lastOf        *client        // the client of that owner
	restored      bool           // the lease is older than the last restart
	cuts          int64          // number of cuts of the holder's client before the grant
	resumedBy     *client        // the last client that resumed the lease
	unsureResume  bool           // a Resume of the lease got no reply
	clients       int            // number of calls of Resume, less releases
	renewals      int            // number of renewals of the holder's lease
	wasBroken     bool           // the last lease was broken
	brokenBefore  bool           // the lease before the holder's was broken
	brokenOwner   string         // the last owner whose lease was broken
	tokenUntil    time.Time      // when twice the last TTL has passed
	lastTTL       time.Duration  // of the last grant or renewal
	leftNow       bool           // a waiter has left the queue during the lease
	beforeRestart bool           // the lease is older than a restart
	inBatch       bool           // the last renewal was one of a batch
	rivals        int            // attempts under way, as a bug
	rivalsMet     bool           // two of them have met
	heldBefore    *client        // whose client held the key last
	again         bool           // its client had held the key before
	happened      happened
	measured      measured
	marks         marks
}

// A place is a waiter's place in a queue.
type place struct {
	backend.Request
	client *client
	turn   chan granted
	since  time.Time
	before int       // number of waiters before it
	first  time.Time // when the holder's lease was due to expire at its arrival
	token  uint64    // of its lease, if not 0
	beside bool      // readers held the key at its arrival
	slow   bool      // it polls, as a bug

	silenced bool // it finds out by a timer that it has its turn, as a bug

	watch     string // the owner just before it at its arrival
	overtaken bool   // by all who come later, as a bug

	missed bool // it looks every five seconds, as a bug
}

type granted struct {
	token uint64
	at    time.Time
}

func newServer(bug string) *server {
	likeness := slices.ContainsFunc(likenessMutants, func(m mutant) bool { return m.bug == bug })
	s := &server{bug: bug, likeness: likeness, keys: make(map[string]*entry), tokens: make(map[string]uint64),
		released: make(map[string]bool),
		kick:     make(chan struct{}),
		stop:     make(chan struct{}), gate: newGate()}
	s.sweepsLate()
	return s
}

func (s *server) is(bugs ...string) bool { return s.bug != "" && slices.Contains(bugs, s.bug) }

func (s *server) harness() conformance.Harness {
	outage := time.Second
	if s.is("deadline stands at MaxSilence") {
		outage = 100 * time.Millisecond // less than MaxSilence
	}
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) {
			if s.is("each client has a store of its own") {
				return newClient(newServer(s.bug)), nil
			}
			if b, odd, err := s.opensOddly(); odd {
				return b, err
			}
			return newClient(s).opened(ctx), nil
		},
		Evict: func(_ context.Context, key string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if e := s.keys[s.name(key)]; e != nil && (s.is("eviction wakes nobody") ||
				len(e.queue) > 0 && e.queue[0].Shared && s.is(evictParksReaders)) {
				e.owner, e.client = "", nil
			} else if e != nil && len(e.readers) > 0 && s.is("eviction of readers wakes nobody") {
				s.forgetHolders(e)
			} else if e != nil && len(e.readers) > 0 {
				s.forgetsToken("tokens are forgotten with evicted readers", s.name(key))
				for i, r := range e.readers {
					if i == 0 || !s.is(evictsOneReader) {
						defer s.notifyReader(r, false)()
					}
				}
				s.removeReaders(key, e)
				e.odd.evicted = true
			} else if e != nil {
				if e.evicted = true; len(e.queue) > 0 {
					s.forgetsToken(evictForgets, s.name(key))
				}
				s.evictsTimer(key, e)
				s.removeLocked(key, e, false)
			}
			return nil
		},
		Freeze:       func() { s.gate.Lock(); s.frozen.Store(true) },
		Thaw:         func() { s.frozen.Store(false); s.gate.Unlock() },
		Fill:         s.fill,
		StepClock:    s.stepClock,
		Restart:      s.restart,
		Members:      []conformance.Member{s.member(), s.member(), s.member()},
		Gather:       func() { s.apart = false },
		Outage:       outage,
		Linked:       s.linked,
		Process:      s.process,
		RestartEmpty: s.restartEmpty,
		Footprint:    s.footprint,
	}
}

func (s *server) acquire(c *client, r backend.Request) (granted, *place, backend.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.name(r.Key)
	r.Owner = s.keptOwner(r.Owner)
	if r.Shared {
		key = s.sharedName(key)
	}
	e := s.entryLocked(key)
	drawn := s.drawsEarly(key, r, c)
	now := time.Now()
	if g, overtook := s.overtakesWaiters(key, e, r, c, now); overtook {
		return g, nil, backend.Holder{}
	}
	if g, took := s.takesOver(key, e, r, c, now); took {
		return g, nil, backend.Holder{}
	}
	if s.is("lease is over by the clock of who asks") {
		s.expireLocked(key, e, now.Add(c.skew))
	}
	if s.is(readersOverByClock) {
		s.expireReaders(key, e, now.Add(c.skew))
	}
	if s.overtakes(e, r, now) {
		return s.grantLocked(key, e, r, c, now), nil, backend.Holder{}
	}
	if s.parksLate(e, r, now) {
		return granted{}, &place{Request: r, client: c, turn: make(chan granted, 1), since: now}, backend.Holder{}
	}
	s.expireLocked(key, e, now)
	s.removesByClock(e, c, r)
	if g, done := s.repeats(key, e, r, c, now); done {
		return g, nil, backend.Holder{}
	}
	if s.is("readers of a key are kept under key:readers") && len(s.entryLocked(strings.TrimSuffix(key,
		":readers")).readers) > 0 {
		return granted{}, nil, backend.Holder{}
	}
	if s.usesKey(r) || s.waitsForLonger(key, r) && !r.Wait {
		return granted{}, nil, backend.Holder{}
	}
	if r.Shared || len(e.readers) > 0 {
		return s.acquireAmongReaders(key, e, r, c, now)
	}
	if s.meetsRivals(e, r) {
		return granted{}, nil, backend.Holder{}
	}
	free := e.owner == ""
	if free && s.is(writerLooks) {
		s.servedLater()
		free = e.owner == ""
	}
	if free && (s.is("acquire checks, then sets") || s.busy("acquire checks, then sets, above %d in flight")) {
		s.mu.Unlock()
		time.Sleep(50 * time.Microsecond) // sleeps: another request may be served meanwhile
		s.mu.Lock()
	}
	if free && s.is("released key is refused for a moment") && !r.Wait && now.Sub(e.released) < 15*time.Millisecond {
		return granted{}, nil, e.holder(now)
	}
	if s.refusesInGap(e, r) {
		return granted{}, nil, e.holder(now)
	}
	again := s.isOf(e.owner, r.Owner, "attempt") ||
		e.owner != "" && (s.is("no exclusion") || s.is("wait for a key over 255 bytes is granted at once") && r.Wait &&
			len(r.Key) > 255 || e.client == c && s.is("re-entrant per client"))
	if free || again {
		if r.Wait {
			s.shuts(e, shutAtOnce)
		}
		g := s.grantLocked(key, e, r, c, now)
		if drawn > 0 {
			e.token, g.token = drawn, drawn
		}
		return g, nil, backend.Holder{}
	}
	s.refuseLocked(key, e, r, c, now)
	s.recordsLocked("store keeps a record of each refused attempt")
	if !r.Wait {
		return granted{}, nil, s.heldBy(e, now)
	}
	p := &place{Request: r, client: c, turn: make(chan granted, 1), since: now}
	s.enqueueLocked(key, s.queueOf(key, "waiters are queued by keys in lower case"), p)
	return granted{}, p, backend.Holder{}
}

func (s *server) enqueueLocked(key string, e *entry, p *place) {
	p.before, p.first = len(e.queue), e.expires
	s.arrives(key, e, p, p.client)
	s.arrivesNarrowly(key, e, p)
	switch {
	case s.arrivesAfterEvents(e, p), s.enqueueInCrowd(e, p), s.enqueueAgain(e, p), s.enqueueByClock(e, p),
		s.enqueueAside(e, p):
	case s.is("queue is last in, first out"):
		e.queue = slices.Insert(e.queue, 0, p)
	case s.is("queue is by owner"):
		i, _ := slices.BinarySearchFunc(e.queue, p, func(x, y *place) int { return strings.Compare(x.Owner, y.Owner) })
		e.queue = slices.Insert(e.queue, i, p)
	default:
		e.queue = append(e.queue, p)
	}
	s.armLocked(key, e)
}

// refuseLocked applies the bugs of a refused attempt.
func (s *server) refuseLocked(key string, e *entry, r backend.Request, c *client, now time.Time) {
	switch {
	case s.is("refused attempt prolongs the holder's lease"):
		e.expires = e.expires.Add(100 * time.Millisecond)
	case s.is("refused attempt replaces the TTL"):
		e.expires = now.Add(r.TTL)
	case s.is("refused attempt replaces the owner"):
		e.owner = r.Owner
	case s.is("refused attempt counts the holder's token up"):
		e.token++
	case s.is(waiterProlongs) && r.Wait:
		e.expires = now.Add(e.lastTTL)
	case s.is("refused attempt turns the queue round"):
		slices.Reverse(e.queue)
	case s.is("refused attempt stays in the queue") && !r.Wait:
		s.enqueueLocked(key, e, &place{Request: r, client: c, turn: make(chan granted, 1), since: now})
	}
}

func (s *server) grantLocked(key string, e *entry, r backend.Request, c *client, now time.Time) granted {
	s.grantsNumber(key, e)
	if e.owner != r.Owner {
		e.token = s.nextToken(key, c)
		s.drawsByClock(key, e, r, c)
	}
	end := e.expires
	e.owner, e.client, e.expires, e.renewed, e.waited = r.Owner, c, now.Add(s.keepWaited(r, s.grantInCrowd(e, r.TTL))),
		time.Time{}, r.Wait
	if s.is("lease ends by its holder's clock") {
		e.expires = e.expires.Add(c.skew)
	}
	e.granted, e.cuts, e.restored = now, c.contact.cuts.Load(), false
	e.resumedBy, e.clients, e.renewals, e.unsureResume = nil, 0, 0, false
	e.tokenUntil, e.lastTTL, e.happened.renewedAt = now.Add(2*r.TTL), r.TTL, time.Time{}
	e.leftNow, e.beforeRestart, e.inBatch, e.evicted = false, false, false, false
	e.again, e.heldBefore = e.heldBefore == c, c
	e.happened.due = e.expires
	s.grantedAfter(e, r, end)
	s.grantedExclusive(e, r, now)
	s.marksGrant(e)
	s.keptWithLongest(e)
	s.armLocked(key, e)
	return granted{e.token, now}
}

func (s *server) nextToken(key string, c *client) uint64 {
	if token, ok := s.clockToken(); ok {
		return token
	}
	if token, ok := s.countedToken(c); ok {
		return token
	}
	s.forgetsTokenLate(key)
	s.forgetsIdleToken(key, time.Now())
	s.forgetsReleasedToken(key)
	switch {
	case s.is("token is constant"):
		return 7
	case s.is("token is 2^55 and more"):
		s.tokens[key]++
		return 1<<55 + s.tokens[key]
	case s.is("token is the client's clock"):
		return uint64(time.Now().Add(c.skew).UnixMilli())
	case s.is("token counts per client"):
		c.token++
		return c.token
	}
	if !s.is("tokens restart with the store", "tokens restart with an emptied store",
		"tokens of held keys restart with the store",
		"tokens are forgotten with the last client", "tokens are forgotten with the last client and lease",
		"token is forgotten with an expired lease",
		"an empty member counts tokens anew", "reader gets the token of the last lease",
		"token of a reader does not move the counter", "tokens of readers are counted apart",
		"waiting reader's token is from its arrival", "tokens are forgotten with the last dead reader",
		"tokens are forgotten with evicted readers", "tokens are forgotten with a broken reader",
		"tokens of keys that readers hold restart with the store") && !s.forgetsTokens() {
		s.tokens[key] = max(s.tokens[key], uint64(time.Now().UnixMicro()))
	}
	s.tokens[key]++
	if s.is("token goes back once in a while") && s.oneIn(10) {
		return 1
	}
	return s.tokens[key]
}

// keep returns how long the store keeps a lease of ttl.
func (s *server) keep(ttl time.Duration) time.Duration {
	switch {
	case s.is("lease ends after 9/10 of its TTL"):
		return ttl * 9 / 10
	case s.is("lease ends a second late"):
		return ttl + time.Second
	case s.is("TTL is cut to seconds"):
		return max(ttl.Truncate(time.Second), 100*time.Millisecond)
	case s.is("TTL in milliseconds is an int32"):
		return time.Duration(int32(ttl/time.Millisecond)) * time.Millisecond
	}
	return s.keepOdd(ttl)
}

func (s *server) entryLocked(key string) *entry {
	e := s.keys[key]
	if e == nil {
		e = &entry{}
		s.keys[key] = e
	}
	return e
}

func (s *server) expireLocked(key string, e *entry, now time.Time) {
	s.expireReaders(key, e, now)
	s.endsIdle(e, now)
	s.dropsOldest(e, now)
	if s.is("lease of a killed process never ends") && e.client != nil && e.client.wire != nil && e.client.wire.isDead() {
		return
	}
	if e.owner != "" && !now.Before(e.expires) && !s.is("lease never ends") && s.sweeps(now) &&
		!s.outlastsNarrowly(e, now) {
		if s.is("token is forgotten with an expired lease") {
			delete(s.tokens, key)
		}
		e.expired, e.last, e.lastOf = true, e.owner, e.client
		s.expiredWithClient(key, e)
		s.recordsLocked("store keeps a record of each expired lease")
		s.expiredQueue(key, e)
		s.marksExpiry(e)
		e.measured.one = s.is(expiryLetsOneIn)
		s.endLocked(key, e)
		e.measured.one = false
	}
}

// endLocked ends the holder's lease. It grants the key to the next in the queue, or frees it.
func (s *server) endLocked(key string, e *entry) {
	s.endsHolder(e)
	e.owner, e.client = "", nil
	s.wakesOther(key)
	s.notifyListeners(key)
	if s.readersTurn(key, e) {
		return
	}
	if s.is("at most 20 waiters are woken") && len(e.queue) > 0 && len(e.queue) < 44 {
		return
	}
	if s.is(hugeParks) && e.lastTTL > huge {
		return
	}
	s.removesOldPlaces(e)
	if len(e.queue) == 0 || s.is("release leaves waiters parked") || s.emptied > 0 && s.is("emptied store wakes nobody") {
		return
	}
	if s.pausesAtEnd(key, e) {
		return
	}
	p := e.queue[0]
	e.queue = e.queue[1:]
	if s.is("place in the queue ends with its TTL") && time.Since(p.since) > p.TTL {
		return
	}
	if s.is("release that meets a waiter coming is missed") && time.Since(p.since) < 300*time.Microsecond {
		return
	}
	from := time.Now()
	if s.is("waiter's TTL counts from its arrival") {
		from = p.since
	}
	if s.is("waiter's lease begins when it takes notice") && p.client.wire != nil {
		p.TTL += time.Hour
	}
	if s.is("turn of a frozen waiter lasts for seconds") && p.client.wire != nil {
		p.TTL += 3 * time.Second
	}
	g := s.grantLocked(key, e, p.Request, p.client, from)
	if p.token != 0 {
		e.token, g.token = p.token, p.token
	}
	s.recordsLocked(keepsWaited)
	p.turn <- g
	s.takesAlongReaders(key, e)
}

// armLocked sets the timer that ends an expired lease while others wait.
func (s *server) armLocked(key string, e *entry) {
	if len(e.queue) == 0 || len(e.readers) > 0 || s.is("expiry wakes nobody") || e.restored &&
		s.is("lease that outlives a restart has no timer") || e.timer != nil &&
		s.is("timer of the first TTL only") || s.noTimer(e) || s.expiresUnheard(key) {
		return
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	late := s.lateFor(e) + s.lateNarrowly(e) + s.lateBehind(e) + s.lateWhole(e)
	e.timer = time.AfterFunc(time.Until(e.expires)+late, func() {
		s.gate.RLock()
		defer s.gate.RUnlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if now := time.Now(); !s.timerStopped(now) {
			s.expireLocked(key, e, now)
		}
	})
}

// renew makes the lease of owner end ttl from now. It reports whether owner holds the key.
func (s *server) renew(key, owner string, c *client, ttl time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.renewed(s.name(key))
	e := s.entryLocked(key)
	now := time.Now()
	s.expireLocked(key, e, now)
	s.revives(e, owner, c)
	owns := s.isOf(e.owner, owner, "renewal")
	switch {
	case e.owner == "" && e.last == owner && len(e.readers) > 0 && s.is(staleBesides):
		e.owner, e.client = owner, c
	case e.owner == "" && (s.is("renew takes a free key") || s.retakes(e, owner, c)):
		e.owner, e.client = owner, c
	case s.meansOther(e, owner, "renewal prolongs"), s.meansOther(e, owner, "renewal"):
	case e.owner != "" && s.is("renew ignores the owner",
		"lease that a step of the clock has ended is renewed over the next one"):
	case !owns && s.is("stale renew drops who waits first"):
		e.queue = e.queue[min(1, len(e.queue)):]
		return false
	case !owns:
		s.lateFromBroken(e, "late renewal of a broken lease drops who waits last")
		s.staleNarrowly(e, owner, "renewal")
		s.prolongsNext(e, owner, ttl)
		return false
	case s.endsAged(e, now), !s.renewsResumed(e, c):
		return false
	case e.unsureResume: // only in a mutant
		return true
	case s.skipsRenewal(key, e, ttl):
		return true
	case s.renewInCrowd(e):
		return owns
	}
	s.recordsLocked("store keeps a record of each renewal")
	e.tokenUntil, e.lastTTL = now.Add(2*ttl), ttl
	refused, skipped := s.renewShortest(e, ttl)
	switch {
	case refused, skipped:
		return skipped
	case s.is("renew never reaches the store"):
		return true
	case s.is("renew counts the token up"):
		e.token = s.nextToken(key, c)
	case s.is("renew never shortens") && now.Add(ttl).Before(e.expires):
		return true
	case s.is("renew adds to what is left"):
		now = e.expires
	}
	now = s.countsFrom(e, now)
	before := e.expires
	e.expires = now.Add(s.keepRenewed(ttl))
	e.renewed = now
	s.prolongsAll(e)
	_, batch := c.narrow.inBatch.Load(owner)
	if e.inBatch = batch; batch && e.expires.Before(before) &&
		s.is("batch that shortens a lease sets no timer") || e.expires.Before(before) && s.is(shortenedEnds) {
		return true
	}
	s.armLocked(key, e)
	return true
}

// release removes the lease of owner, or its place in the queue. It reports whether there was any.
func (s *server) release(key, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.name(key)
	e := s.entryLocked(key)
	s.expireLocked(key, e, time.Now())
	if e.owner == owner && s.is("one release in 200 that meets a renewal is missed") &&
		time.Since(e.renewed) < time.Millisecond && s.oneIn(200) {
		return true
	}
	if e.owner == owner && s.is("release compares, then frees") {
		s.mu.Unlock()
		time.Sleep(40 * time.Millisecond) // sleeps: the lease may end meanwhile
		s.mu.Lock()
		s.expireLocked(key, e, time.Now())
		s.endLocked(key, e)
		return true
	}
	if s.busy("release above %d in flight is missed") {
		return true
	}
	if s.releaseMissesOdd(key) {
		return false
	}
	if s.isOf(e.owner, owner, "release") || s.meansOther(e, owner, "release ends") || e.owner != "" &&
		s.is("release ignores the owner") {
		if s.keepsResumed(e) {
			return true
		}
		s.recordsLocked("store keeps a record of each released lease")
		if e.resumedBy != nil && len(e.queue) == 0 {
			s.forgetsToken("token is forgotten when a resumed lease is released", key)
		}
		if len(e.queue) > 0 && !e.renewed.IsZero() && s.is(renewedPolls) {
			e.queue[0].silenced = true
		}
		s.releasesUnheard(e)
		s.missesAsItCame(e)
		e.released, e.expired, e.gaveUp = time.Now(), false, owner
		s.endLocked(key, e)
		return true
	}
	s.leavesJoined(key, owner)
	e = s.queueOf(key, "waiter leaves the queue of its key in lower case")
	i := slices.IndexFunc(e.queue, func(p *place) bool { return s.isOf(p.Owner, owner, "place") })
	if s.staysOdd(owner) {
		i = -1
	}
	if e.left = e.left || i >= 0; s.is("waiter that leaves delays the next by 3 seconds") {
		defer s.armLocked(key, e)
	}
	switch {
	case i < 0:
		s.lateFromBroken(e, "late release of a broken lease turns the queue round")
		s.staleNarrowly(e, owner, "release")
		s.releasesLate(key, e, owner)
		return false
	case s.takesNextAlong(e, i):
	case e.broken && s.is("waiter that leaves after a Break takes the next along"):
		e.queue = slices.Delete(e.queue, i, min(i+2, len(e.queue)))
	case s.takesAlong(e, e.queue[i]):
	case s.is("one cancelled waiter in 150 stays in the queue") && s.oneIn(150):
		e.queue[i].Owner += ", who has left"
	case s.is("leaving waiter swaps places"):
		last := len(e.queue) - 1
		e.queue[i] = e.queue[last]
		e.queue = e.queue[:last]
	case s.is("who leaves a long queue takes the next along") && len(e.queue) > 10:
		e.queue = slices.Delete(e.queue, i, min(i+2, len(e.queue)))
	default:
		s.recordsLocked("store keeps a record of each cancelled wait")
		s.forgetsToken("token is forgotten when a waiter leaves", key)
		left := e.queue[i]
		e.queue = slices.Delete(e.queue, i, i+1)
		s.gaveUpPlace(key, e, left.client)
		s.behindLeft(key, e, i, left.Request)
		s.leavesNarrowly(e, left.client)
		s.allLeave(e, left.client)
		s.leavesAmong(key, e, left.Request, left.client)
		s.admitAfter(key, e, left.Request)
	}
	return true
}

// leave removes the lease and the places of owner, without granting the key to a waiter.
func (s *server) leave(key, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(s.name(key))
	if e.owner == owner {
		e.owner, e.client = "", nil
	}
	e.queue = slices.DeleteFunc(e.queue, func(p *place) bool { return p.Owner == owner })
}

func (s *server) oneInLocked(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.oneIn(n)
}

// oneIn returns true once in n calls.
func (s *server) oneIn(n int) bool {
	s.nth++
	return s.nth%n == 0
}

func (s *server) inspect(key string) backend.Holder {
	h := s.inspectsAmong(key, s.holderOf(key))
	if s.is("TTL over 10 s is cut, and Inspect returns none", "waiter's TTL is cut to seconds, and Inspect returns none",
		"TTL is 30 seconds at most, and Inspect returns none", "TTL is a minute at most, and Inspect returns none", ttlHour) {
		h.TTL = 0
	}
	return h
}

func (s *server) holderOf(key string) backend.Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.name(key)
	e := s.entryLocked(key)
	now := time.Now()
	if !s.is("Inspect returns expired leases") && !s.lingers(e, now) {
		s.expireLocked(key, e, now)
	}
	e.odd.expired = 0
	if len(e.readers) > 0 {
		return s.inspectReaders(e, now)
	}
	if e.owner == "" {
		s.recordsLocked(keepsInspected)
	}
	if h, found := s.inspectsExpired(key, e); found {
		return h
	}
	if e.owner == "" || e.waited && s.is("Inspect of a key that waits for its next holder is free") &&
		e.client.isSilent() {
		if e.owner == "" && e.wasBroken && s.is("Inspect of a broken key returns its last token") {
			return backend.Holder{Token: e.token}
		}
		return backend.Holder{}
	}
	h := e.holder(now)
	if s.is("Inspect of an exclusive lease counts it as shared") {
		h.Shared = 1
	}
	if e.waited && s.is("Inspect returns no token of a lease that was waited for") {
		h.Token = 0
	}
	if e.waited && s.is(inspectNoTTL) {
		h.TTL = 0
	}
	if s.is(inspectWhole) {
		h.TTL = e.lastTTL
	}
	if strings.Contains(h.Owner, "|") && s.is(inspectBar) {
		h.Token++
	}
	return h
}

func (e *entry) holder(now time.Time) backend.Holder {
	if len(e.readers) > 0 {
		return e.sharedHolder(now)
	}
	h := backend.Holder{Owner: e.owner, Token: e.token, TTL: e.expires.Sub(now), Waiters: len(e.queue)}
	if h.TTL > noExpiry/2 {
		h.TTL = 0
	}
	return h
}
