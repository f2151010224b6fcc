package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A client is a client of the reference store: see server.
type client struct {
	server *server
	leases *kit.Leases
	done   chan struct{} // closed by Close
	ending sync.Once
	token  uint64          // guarded by server.mu
	taking map[string]bool // owners whose attempts are under way; guarded by server.mu
	// by owner, the keys of the leases of a client with MaxLeases, some of them ended; guarded by server.mu
	held map[string]string
	wire *wire         // the link to the server; nil for a direct connection
	skew time.Duration // the error of its wall clock

	contact contact

	mu    sync.Mutex
	asked int         // number of calls of Guarantees
	lives []*kit.Life // see keepsLives
	kept  []any       // data that a bug retains

	resumed []backend.Request

	pushed sync.Map // owners whose loss the server has reported
	again  sync.Map // numbers of the cuts after which a waiter has queued again

	// for exclusiveMutants
	gaveUp  sync.Map          // owners whose releases are not sent any more
	latest  sync.Map          // by key, the last bent lease
	live    sync.Map          // the live bent leases
	stopped atomic.Bool       // no timer closes Lost
	heldErr backend.HeldError // the one error of all refused attempts
	answers []error           // of the last batch
	listed  []string          // by the last List

	emptied int // how often the server had lost its data when the client was opened

	narrow narrow
	joints joints

	meeting  meeting
	dialling context.Context // of the first of the dials under way, as a bug; guarded by mu

	listener  listener
	shifted   shifted
	stale     atomic.Bool  // an answer to a cancelled request is left, as a bug
	lists     sync.Map     // results of List, by prefix, as a bug
	byOwner   sync.Map     // the last lease of each owner, or of each key, as a bug
	until     time.Time    // when requests begin to fail, as a bug
	deaf      atomic.Bool  // no notification arrives any more, as a bug
	requested atomic.Int64 // when the last request was made

	events clientEvents
	copied sync.Map // owners whose request was sent twice
}

const requestTimeout = 5 * time.Second

func newClient(s *server) *client {
	s.mu.Lock()
	s.clients++
	emptied := s.emptied
	s.mu.Unlock()
	c := &client{server: s, emptied: emptied, done: make(chan struct{})}
	c.leases = kit.NewLeases(requests{c}, requestTimeout)
	c.events.opened = time.Now()
	return c
}

func (c *client) is(bugs ...string) bool { return c.server.is(bugs...) }

// isOlder reports whether the server has lost its data since the client was opened.
func (c *client) isOlder() bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.emptied != c.server.emptied
}

// do sends a request, with a short delay. The server serves the request even if nobody waits for the reply any more.
func (c *client) do(ctx context.Context, serve func()) error {
	if err := c.server.hungUp(); err != nil {
		return err
	}
	if err := errors.Join(c.wakesUp(), c.timesOutSince()); err != nil {
		return err
	}
	serve = c.server.atRequest(serve)
	if c.wire != nil {
		return c.exchange(ctx, serve)
	}
	if c.is("emptied store is of no use to its clients") && c.isOlder() {
		<-ctx.Done()
		return kit.ContextError(ctx, nil)
	}
	answered := make(chan struct{})
	c.server.inFlight.Add(1)
	go func() {
		defer c.server.inFlight.Add(-1)
		time.Sleep(rand.N(c.server.latency())) // sleeps: the request is under way
		c.server.gate.RLock()
		defer c.server.gate.RUnlock()
		serve()
		close(answered)
	}()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	}
}

func (c *client) Guarantees() backend.Guarantees {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	g := backend.Guarantees{
		MinTTL: 10 * time.Millisecond, Granularity: 1, MaxLate: 20 * time.Millisecond, EnforcedBy: "clock of the process",
		Fencing: backend.FencingLoss, FIFO: true, Wake: backend.WakePush, Consistency: backend.Linearizable,
		Reach: backend.ReachNetwork, ReportsLoss: c.server.notifies(), Shared: !c.is(unshared, unsharedHeld, unsharedSent),
	}
	switch {
	case c.is("Guarantees change with use"):
		g.MaxLate += time.Duration(c.asked)
	case c.is("Guarantees contradict each other"):
		g.EarlyLoss = "now and then"
	case c.is("token although none is promised"):
		g.Fencing = backend.FencingNone
	case c.is("longer TTL than MaxTTL is taken"):
		g.MaxTTL = time.Hour
	case c.is("deadline is further away than MaxSilence"):
		g.MaxSilence = 2 * time.Second
	case c.is("one lease less than MaxLeases", "one more than MaxLeases is busy", "wait beside MaxLeases fails at once",
		"broken lease counts among MaxLeases", "cancelled wait for its turn among MaxLeases takes its turn along",
		"wait for its turn among MaxLeases ignores its context",
		"cancelled wait for its turn among MaxLeases is ErrClosed",
		"Close leaves a wait for its turn among MaxLeases waiting", resumeCounts, resumeCountsExpired,
		readersUncounted, waitedQueues,
		"limited"):
		g.MaxLeases = mostLeases
	case c.is("deadline stands at MaxSilence"):
		g.MaxSilence = 200 * time.Millisecond
	case c.is("waiter doubles its pause between polls each time"):
		g.Wake = backend.WakePoll
	}
	return c.server.clocked(g)
}

func (c *client) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	if err := backend.ValidateKey(key); err != nil {
		return h, err
	}
	if c.leases.Closed() && !c.is("closed client works on") {
		return h, backend.ErrClosed
	}
	if c.is("Inspect ignores the context") {
		ctx = context.WithoutCancel(ctx)
	}
	if err := kit.ContextError(ctx, nil); err != nil {
		return h, err
	}
	ctx = c.only(ctx, "Inspect under way ignores cancellation")
	if own, ok := c.ownHolder(key); ok {
		return own, nil
	}
	found, err := c.inspectOddly(ctx, key)
	if err != nil {
		c.keeps(inspectLeaks)
		return h, c.cutInspect(err)
	}
	h = c.inspectsNarrowly(key, found)
	const most = 32
	switch {
	case c.is("Inspect cuts the owner") && len(h.Owner) > most:
		h.Owner = h.Owner[:most]
	case strings.Count(h.Owner, "@") > 1 && c.is("Inspect cuts the owner at its last of several @"):
		h.Owner = h.Owner[:strings.LastIndex(h.Owner, "@")]
	case c.is("Inspect returns the TTL in milliseconds"):
		h.TTL /= time.Millisecond
	case c.is("Inspect counts the holder as a waiter") && h.Held():
		h.Waiters++
	case c.is("Close ends waits as unavailable"):
		h.Waiters = -1
	}
	return h, nil
}

func (c *client) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	if ctx.Err() != nil && c.is("batch whose context has ended has no answers") {
		return nil
	}
	if errs, failed := c.batchAtOnce(len(renewals)); failed {
		return errs
	}
	if errs, done := c.batchAlone(ctx, renewals); done {
		return errs
	}
	if err := c.unserved(batchRestarted); err != nil {
		return slices.Repeat([]error{err}, len(renewals))
	}
	c.meeting.underWay.Add(1)
	defer c.meeting.underWay.Add(-1)
	ctx = c.only(ctx, "batch under way ignores cancellation")
	asked := renewals
	defer c.silences(asked)()
	renewals = straight(renewals)
	c.takesBad(renewals)
	c.renewsNext(renewals)
	if len(renewals) == 1 {
		if err, done := c.batchBehindBack(ctx, renewals[0].Lease.(*kit.Life), renewals[0].TTL); done {
			return []error{err}
		}
	}
	answered, watched := c.hangs(asked), watchesBatch(asked)
	hidden := make(map[backend.Lease]error)
	errs := c.leases.RenewBatch(ctx, renewals, func(ctx context.Context, lives []*kit.Life, ttls []time.Duration) (
		granted []time.Duration, errs []error,
	) {
		if c.server.framed() {
			return c.renewFrames(ctx, lives, ttls)
		}
		return c.renewBatch(ttls, func(i int, ttl time.Duration) (time.Duration, error) {
			c.contact.batched.Store(lives[i].Owner(), true)
			if lives[i].Shared() && (c.is("readers in a batch are not renewed") || c.is("batch renews one reader of a key") &&
				slices.ContainsFunc(lives[:i], func(l *kit.Life) bool { return l.Key() == lives[i].Key() })) {
				return ttl, nil
			}
			if lives[i].Shared() && c.is("batch renews at most 16 readers of a key") &&
				sharers(lives[:i], lives[i].Key()) >= 16 {
				return ttl, nil
			}
			if lives[i].Shared() != lives[0].Shared() && c.is(batchFirstMode) {
				return 0, backend.ErrLost
			}
			if c.skipsReader(lives[:i], lives[i]) || c.stopsAtLoss(lives[:i]) {
				return ttl, nil
			}
			if c.server.renewOfBatch(lives[i].Key(), lives[i].Owner()) {
				return ttl, nil
			}
			if c.server.missedByBatch(lives[i].Key()) {
				return 0, backend.ErrLost
			}
			kept := c.keptInBatch(lives, ttls, i, c.inBatch(lives[:i], lives[i], ttl))
			if kept == 0 {
				return ttl, nil
			}
			c.narrow.inBatch.Store(lives[i].Owner(), true)
			g, err := requests{c}.RenewLease(ctx, lives[i], kept)
			c.narrow.inBatch.Delete(lives[i].Owner())
			if g = max(g, ttl); c.is(batchLastTTL) {
				g = ttl
			}
			if c.hides(lives[i], err) {
				hidden[lives[i]] = err
				return ttl, nil
			}
			if c.hidesLoss(lives[:i], lives[i], err) {
				return ttl, nil
			}
			return g, err
		})
	})
	for i, r := range renewals {
		if err := hidden[r.Lease]; err != nil {
			errs[i] = err
		}
	}
	for i := range errs {
		errs[i] = c.cancelled(errs[i], batchCancels)
	}
	answered()
	watched(errs)
	c.anchorsLate(asked, errs)
	errs = c.swapsAnswers(c.answersOfBatch(errs))
	c.answersReaders(renewals, errs)
	c.answersWriters(renewals, errs)
	if c.is("batch reports errors of lost leases only once") {
		for i := 1; i < len(errs); i++ {
			if errs[i] != nil && errs[0] == nil {
				errs[0], errs[i] = errs[i], nil
			}
		}
	}
	return errs
}

func (c *client) Close() error {
	first := false
	c.ending.Do(func() { first = true })
	switch {
	case !first && c.is("second Close is an error"):
		return fmt.Errorf("%w already", backend.ErrClosed)
	case !first:
		c.server.closesAgain()
	case c.is("Close leaves a goroutine") && first:
		go func() { <-c.server.stop }()
	case c.is("tokens are forgotten with the last client", "tokens are forgotten with the last client and lease") && first:
		c.server.forget()
	case c.is("Close drops the store"):
		c.server.drop()
	case c.is("Close waits for an answer") && first:
		for ; c.wire != nil && c.do(context.Background(), func() {}) != nil; time.Sleep(time.Millisecond) {
		}
	}
	if first {
		c.server.closesBeside(c)
		close(c.done)
		c.server.mu.Lock()
		c.server.recordsLocked(keepsClients)
		c.server.mu.Unlock()
		c.server.closeAlone(c)
		c.server.closesHelpfully(c)
		c.server.closesTimers(c)
		c.server.closesReaderTimers(c)
		c.server.closesReading(c)
		if c.is("close of a client ends what it has resumed", closeEndsResumed) {
			c.endsResumed()
		}
		c.hangsUpEarly()
		c.waitsForDial()
		if !c.is("Close leaves leases live", "Close leaves readers live") {
			c.leases.Close()
		}
		c.server.closesReaders(c)
		c.hangUp()
	}
	return nil
}

func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients--
	held := slices.ContainsFunc(slices.Collect(maps.Values(s.keys)), func(e *entry) bool { return e.owner != "" })
	if s.clients == 0 && !(held && s.is("tokens are forgotten with the last client and lease")) {
		clear(s.tokens)
	}
}

func (s *server) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		s.endLocked(key, e)
	}
}

// requests makes the requests of a client's leases to the server.
type requests struct{ c *client }

func (q requests) Guarantees() backend.Guarantees { return q.c.Guarantees() }

func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	if done, err := q.inTwoSteps(ctx, l, ttl); done {
		return ttl, err
	}
	if done, err := q.addsReader(ctx, l, ttl); done {
		return ttl, err
	}
	if q.c.takesAnswer(renewalShifts, func() { q.c.renewed(l, ttl) }) {
		return ttl, nil
	}
	begun := time.Now()
	joined, end := q.c.joins(l)
	if joined {
		return ttl, q.c.do(ctx, func() {})
	}
	defer end()
	var ok bool
	var refused error
	give, err := q.c.takes(ctx)
	if err != nil {
		return 0, err
	}
	defer give()
	if q.c.wire != nil && !l.Shared() && q.c.is("renewal takes the TTL away first") {
		_ = q.c.exchange(ctx, func() { q.c.server.renew(l.Key(), l.Owner(), q.c, time.Hour) })
		time.Sleep(time.Millisecond) // sleeps: the process may be killed meanwhile
	}
	if q.c.wire != nil && l.Shared() && q.c.is(readerRenews) {
		q.c.keepsForAnHour(l.Key(), l.Owner())
	}
	err = q.c.do(ctx, func() {
		if refused = q.c.server.refusal(l.Key(), "renewal"); refused == nil {
			ok = q.c.renewed(l, ttl)
		}
	})
	if err == nil && refused != nil {
		return 0, refused
	}
	if err != nil {
		if q.c.leavesAnswer(ctx, renewalShifts); errors.Is(err, errReset) && q.c.is(renewalKept) {
			return q.renewsAgain(ctx, l, ttl, begun)
		}
		if _, batch := q.c.narrow.inBatch.Load(l.Owner()); batch {
			q.c.keeps(batchLeaks)
		}
		if err = q.c.cutReader(l.Shared(), q.c.cutRenewal(l, err), readerCutRenewal); err == nil {
			return ttl, nil
		}
		if q.c.is("renewal without an answer ends the lease") {
			err = backend.ErrLost
		}
		if q.c.is("renewal without an answer leaves a goroutine until Close") {
			go func() { <-q.c.done }()
		}
		return 0, err
	}
	if !ok {
		q.c.keep(keepsLost, l)
		return 0, backend.ErrLost
	}
	if q.c.is("each renewal leaves a goroutine until Close") {
		go func() { <-q.c.done }()
	}
	if q.c.is("one renewal in 50 leaves a goroutine") && q.c.server.oneInLocked(50) {
		go func() { <-q.c.server.stop }()
	}
	if l.Shared() && q.c.is(renewalFromAnswer) {
		return ttl + time.Since(begun), nil
	}
	return ttl, nil
}

func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	if _, ok := q.c.gaveUp.Load(l.Owner()); ok {
		return nil
	}
	if q.c.is("release takes the TTL away first") && q.c.wire != nil {
		q.c.twoSteps(l.Key(), l.Owner(), time.Minute)
	}
	if l.Shared() && q.c.wire != nil && q.c.is(readerReleases) {
		q.c.keepsForAnHour(l.Key(), l.Owner())
	}
	ok, err := q.release(ctx, l)
	if errors.Is(err, errRefused) && q.c.is(releasesOnce) {
		q.c.gaveUp.Store(l.Owner(), true)
	}
	if errors.Is(err, errReset) && q.c.is("release sent again is ErrLost",
		"release sent again is done, whatever it finds") {
		ok, err = q.release(ctx, l) // the first request may still be in flight
		ok = ok || q.c.is("release sent again is done, whatever it finds")
	}
	if err != nil {
		return q.c.cutReader(l.Shared(), q.c.cutRelease(err), readerCutRelease)
	}
	if !ok {
		return backend.ErrLost
	}
	q.c.byOwner.Delete(l.Key())
	q.c.forgetsResumed(l)
	q.c.keep("client keeps released leases", l)
	if l.Shared() {
		q.c.keep("client keeps released readers", l)
	}
	if q.c.is("one released lease in 50 leaves a goroutine") && q.c.server.oneInLocked(50) {
		go func() { <-q.c.server.stop }()
	}
	return nil
}

// release makes one release request.
func (q requests) release(ctx context.Context, l *kit.Life) (ok bool, err error) {
	var released bool
	var refused error
	err = q.c.do(ctx, func() {
		if refused = q.c.server.refusal(l.Key(), "release"); refused == nil {
			released = q.c.server.releaseMode(l.Key(), l.Owner(), l.Shared())
		}
	})
	if err == nil {
		err = refused
	}
	return err == nil && released, err
}
