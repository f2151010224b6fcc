package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

func (c *client) validate(r backend.Request) error {
	err := r.ValidateFor(backend.Guarantees{Shared: (r.Wait || !c.is(unshared)) && !c.is(unsharedHeld, unsharedSent)})
	switch {
	case c.is("longer keys are taken") && backend.ValidateKey(r.Key) != nil && r.Key != "":
	case c.is("TTL 0 is taken") && r.TTL == 0:
	case c.is("shared TTL 0 is taken") && r.Shared && r.TTL == 0:
	case c.tooLong(r):
	case c.is("long TTL is refused") && r.TTL > time.Hour:
		return fmt.Errorf("%w: ttl %v", backend.ErrInvalid, r.TTL)
	default:
		return err
	}
	return nil
}

func (c *client) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := c.validate(r); err != nil {
		return nil, c.refusedOddly(ctx, r, err)
	}
	if c.leases.Closed() && r.Shared && c.is("shared Acquire after Close is unavailable") {
		return nil, fmt.Errorf("%w: connection closed", backend.ErrUnavailable)
	}
	if c.leases.Closed() && !c.is("closed client works on") {
		return nil, backend.ErrClosed
	}
	if err := kit.ContextError(ctx, nil); err != nil && !c.is("ended context is not looked at") &&
		!(r.Shared && c.is("shared Acquire does not look at an ended context")) {
		return nil, c.endedBefore(err)
	}
	if err := c.shutOut(r); err != nil {
		return nil, err
	}
	if c.is("wait ignores the context", "ended context is not looked at") ||
		r.Shared && ctx.Err() != nil && c.is("shared Acquire does not look at an ended context") {
		ctx = context.WithoutCancel(ctx)
	}
	if r.Wait {
		ctx = c.only(ctx, "wait under way ignores cancellation")
	} else {
		ctx = c.only(ctx, "attempt under way ignores cancellation")
	}
	if err := c.server.mayWait(r); err != nil {
		return nil, err
	}
	if r.Shared {
		if err := c.unserved(sharedRestarted); err != nil {
			return nil, err
		}
	}
	if c.is(unshared) {
		r.Shared = false
	}
	if !r.Shared || !c.is("reader's TTL below MinTTL is kept as asked") {
		r.TTL = max(r.TTL, shortest)
	}
	done, err := c.turn(ctx, r.Owner, r.Wait)
	if err != nil {
		return nil, err
	}
	give, err := c.waitsIn(ctx, r)
	if err != nil {
		done(nil)
		return nil, err
	}
	life, err := c.acquire(ctx, r)
	c.shuts(ctx, r, err)
	give()
	done(life)
	if err != nil {
		if c.is("context's error is hidden") && ctx.Err() != nil {
			return nil, errors.New("timeout")
		}
		return nil, err
	}
	if c.is(ownInspect) {
		c.byOwner.Store(r.Key, life)
	}
	c.renewsEvery(r)
	return c.bend(ctx, life, r), nil
}

// acquire repeats its request until the key is granted or refused, or ctx ends. It queues again if it may have lost its
// place.
func (c *client) acquire(ctx context.Context, r backend.Request) (*kit.Life, error) {
	outages := 0
	for refused, n := false, 1; ; n++ {
		a, err := c.requestKey(ctx, r)
		if errors.Is(err, errReset) && !r.Wait && c.is("cut request counts from a while after it is sent again") {
			a, err = c.requestKey(ctx, r)
			a.sent = a.sent.Add(100 * time.Millisecond)
		}
		switch {
		case c.sendsAgain(ctx, r, err, n), c.repeatsAndCleansUp(r, err),
			err == nil && a.refused == nil && a.granted == granted{} && a.place == nil && c.repeatsRefused(r, n):
			continue
		case c.dialsAgain(r, err):
			return nil, err
		case err != nil && refused && outages > 500 && c.is("waiter's patience is for all outages together"):
			c.leave(r)
			return nil, errTired
		case err != nil && refused &&
			(ctx.Err() == nil || errors.Is(err, errRefused) && !c.wire.isDead() &&
				c.is("cancelled waiter returns when its client can connect again")) &&
			(!c.leases.Closed() || errors.Is(err, errRefused) && !c.wire.isDead() &&
				c.is("Close leaves waiters waiting that cannot connect")):
			time.Sleep(10 * time.Millisecond) // sleeps: before the next attempt in an outage
			outages++
			continue
		case err != nil && refused && c.leases.Closed() && !c.is("Close leaves waiters waiting"):
			c.leave(r)
			return nil, backend.ErrClosed
		case err != nil && refused && !c.is("wait that is cancelled while its client cannot connect is unavailable"):
			c.unanswered(ctx, r)
			return nil, c.endOfWait(ctx)
		case errors.Is(err, errReset) && c.is("repeated shared request adds a reader"):
			continue
		case errors.Is(err, errReset) && c.is("attempt sent again meets its own ghost"):
			r.Owner = backend.NewOwner()
			continue
		case err != nil:
			c.keeps("attempt that is given up keeps a connection until Close", "Close keeps connections that were given up")
			if r.Wait {
				c.keeps(waitLeaks)
			}
			c.unanswered(ctx, r)
			if r.Shared && errors.Is(err, errReset) && c.is(readerCutAttempt) {
				return nil, backend.ErrHeld
			}
			return nil, c.reportedError(ctx, c.cutAttempt(r, err))
		case a.refused != nil:
			return nil, a.refused
		case a.granted != granted{}:
			return c.grant(ctx, r, a.granted, a.sent)
		case a.place == nil && c.is("HeldError names the one who asks"):
			return nil, &backend.HeldError{Holder: backend.Holder{Owner: r.Owner}}
		case a.place == nil && c.is("HeldErrors of a client are one"):
			c.mu.Lock()
			c.heldErr.Holder = a.holder
			c.mu.Unlock()
			return nil, &c.heldErr
		case a.place == nil:
			c.keep("client keeps owners of refused attempts", r.Owner)
			c.keeps("refused attempt keeps a connection until Close")
			return nil, &backend.HeldError{Holder: a.holder}
		}
		refused = true
		c.copied.Delete(r.Owner) // only a mutant has such owners
		g, err := c.await(ctx, r, a)
		switch {
		case errors.Is(err, errAgain):
			continue
		case err != nil:
			return nil, err
		}
		if _, again := c.contact.asked.Load(r.Owner); again &&
			c.is("deadline of a waiter that queued again counts from the answer") {
			g.at = time.Now()
		}
		life, err := c.grant(ctx, r, g, g.at)
		if errors.Is(err, backend.ErrLost) && c.is("waiter asks again under an owner that is being given back") {
			time.AfterFunc(r.TTL/4, func() { c.leave(r) })
			continue
		}
		c.watchesWaited(r)
		return life, err
	}
}

var errAgain = errors.New("ask again")

// An answer is the server's reply to an attempt.
type answer struct {
	granted
	place   *place
	holder  backend.Holder
	refused error // the error of a full server
	sent    time.Time
	kicked  <-chan struct{} // closed when the place may be lost
	conn    *conn           // of the request; nil without a wire
}

// requestKey makes one attempt.
func (c *client) requestKey(ctx context.Context, r backend.Request) (answer, error) {
	a := answer{kicked: c.kicked(), sent: time.Now()}
	if c.wire != nil {
		var err error
		dialling, end := c.dialContext(ctx)
		a.conn, err = c.dial(dialling)
		if end(); err != nil {
			c.leavesGoroutine(refusedLeaks)
			return a, err
		}
	}
	var served answer
	if err := c.do(c.patient(ctx), func() {
		if served.refused = c.server.refusal(r.Key, "attempt"); served.refused == nil {
			served.granted, served.place, served.holder = c.server.acquire(c, c.cutByWait(ctx, c.cutByContext(ctx, r)))
		}
		c.reads(served)
	}); err != nil {
		return a, err
	}
	served = c.nextAnswer(served)
	a.granted, a.place, a.holder, a.refused = served.granted, served.place, served.holder, served.refused
	return a, nil
}

// await waits for the turn of a waiter. If a broken connection or a restart may have cost the place, it returns
// errAgain, and the same owner repeats its request.
func (c *client) await(ctx context.Context, r backend.Request, a answer) (granted, error) {
	c.listens(r.Key)
	p, kicked, turn := a.place, a.kicked, (<-chan granted)(a.place.turn)
	var cut <-chan struct{}
	if a.conn != nil {
		over := make(chan struct{})
		defer close(over)
		c.asks(p, over)
		cut, turn = a.conn.broken, c.turnThrough(p, a.conn, turn, over)
	}
	switch {
	case c.is("restart parks waiters"), c.missesRestart(p):
		kicked = nil
	case c.is("waiter that has outlived a restart is parked by the next one"):
		if _, outlived := c.narrow.outlived.Load(r.Owner); outlived {
			kicked = nil
		}
	case c.is("broken connection ends the wait"):
		select {
		case <-cut:
			return granted{}, errors.New("connection reset")
		default:
		}
	}
	if c.is("broken connection parks the waiter") || r.Shared && c.is("broken connection parks a waiting reader") {
		cut = nil
	}
	if c.server.deaf() {
		turn = nil
	}
	var tired, impatient <-chan time.Time
	tired, impatient = c.agedWait(ctx)
	early, gaveUp := c.timeOf(ctx), c.contact.gaveUp
	if c.is(readerTires) && !r.Shared {
		gaveUp = nil
	}
	if c.is("waiter gives up after its TTL") {
		tired = time.After(r.TTL)
	}
	if c.is("waiter asks anew after its TTL") {
		impatient = time.After(r.TTL)
	}
	done := c.done
	if c.is("Close leaves waiters waiting") {
		done = nil
	}
	if c.is("wait leaves a goroutine") || c.is("one wait in 50 leaves a goroutine") && c.server.oneInLocked(50) {
		go func() { <-c.done }()
	}
	select {
	case g := <-turn:
		c.keep(keepsGranted, r.Owner)
		if c.is(closeKeepsWaited) {
			c.events.queued.Store(r.Owner, true)
		}
		c.looks(p)
		c.looksNarrowly(p)
		c.pausesLonger(p)
		c.misses()
		if err := c.atTurn(p); err != nil {
			c.leave(r)
			return granted{}, err
		}
		return g, nil
	case <-early:
		return granted{}, c.timesOutEarly(r)
	case <-kicked:
		if err := c.parksEmptied(ctx, r); err != nil {
			return granted{}, err
		}
		c.narrow.outlived.Store(r.Owner, true)
	case <-gaveUp:
		c.leave(r)
		return granted{}, errSilent
	case <-cut:
		c.queuesAgain(r)
		if err := c.cutWhileWaiting(ctx, p); err != nil {
			c.leave(r)
			return granted{}, err
		}
		if c.is("broken connection ends the wait") {
			return granted{}, errors.New("connection reset")
		}
	case <-impatient:
	case <-tired:
		return granted{}, context.DeadlineExceeded
	case <-ctx.Done():
		c.leavesTurn(p)
		if err, odd := c.endsOddly(ctx, r, p); odd {
			return granted{}, err
		}
		c.keep("client keeps owners of cancelled waits", r.Owner)
		if c.is("waiter that leaves at its turn takes the turn along") {
			time.Sleep(rand.N(c.server.latency())) // sleeps: its turn may come meanwhile
			c.server.leave(r.Key, r.Owner)
		}
		c.losesNext(r)
		c.keeps("cancelled wait keeps a connection until Close", "Close keeps connections of cancelled waits")
		if r.Shared && c.is("cancelled wait of a reader leaves a goroutine") {
			go func() { <-c.done }()
		}
		c.server.cleansUp(r, "cancelled")
		if !r.Shared && c.is("writer that leaves at its turn takes that of the readers behind along") {
			time.Sleep(rand.N(c.server.latency())) // sleeps: its turn may come meanwhile
			c.server.leavesTurn(r.Key, r.Owner)
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.timedOut(r)
			c.server.writerLeft(r, "timed out")
		}
		if !c.dropsCleanUp(r) && !c.abandonsBriefly(r, "a cancelled wait") && !c.is("cancelled request is not cleaned up") &&
			!(r.Shared && c.keepsReader(ctx, r)) {
			c.leases.Withdraw(r, r.TTL)
		}
		return granted{}, c.endOfSharedWait(ctx, r, p)
	case <-done:
		c.server.writerLeft(r, "ended by Close")
		if !c.is("waiter of a closed client stays in the queue") && !c.closesNarrowly(r) &&
			!(r.Shared && c.is("waiting reader of a closed client stays in the queue")) {
			c.leave(r)
		}
		if c.is("Close ends waits as unavailable") {
			return granted{}, fmt.Errorf("%w: connection closed", backend.ErrUnavailable)
		}
		return granted{}, backend.ErrClosed
	}
	select {
	case g := <-turn: // the turn came at the same time
		return g, nil
	default:
	}
	c.leave(r)
	return granted{}, errAgain
}

// leave removes r's owner from the server, unless the client's process was killed.
func (c *client) leave(r backend.Request) {
	if c.wire == nil || !c.wire.isDead() {
		c.server.releaseMode(r.Key, r.Owner, r.Shared)
	}
}

func (c *client) kicked() <-chan struct{} {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.server.kick
}

// patient returns the context that a request honours.
func (c *client) patient(ctx context.Context) context.Context {
	if c.is("attempt ignores the context while the store hangs") {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (c *client) abandon(r backend.Request) {
	c.server.cleansUp(r, "abandoned")
	c.cleansUpAny(r)
	if !c.is("cancelled request is not cleaned up") &&
		!(r.Shared && c.is("shared request that ended without an answer is not cleaned up")) {
		c.leases.Abandon(r, r.TTL)
	}
}

func (c *client) grant(ctx context.Context, r backend.Request, g granted, sent time.Time) (*kit.Life, error) {
	if c.lostAtOnce(r) {
		c.leave(r)
		return nil, backend.ErrLost
	}
	switch {
	case c.is("deadline counts from the answer"),
		r.Shared && c.is("reader's deadline counts from when it learns of its turn"):
		sent = time.Now()
	case c.is("deadline has no margin"):
		sent = sent.Add(backend.Margin(r.TTL))
	case c.is("waiter whose turn came too late waits for ever") && !time.Now().Before(sent.Add(r.TTL)):
		select {
		case <-c.done:
		case <-ctx.Done():
		}
	case c.is("TTL is set by a second request") && c.wire != nil:
		c.twoSteps(r.Key, r.Owner, r.TTL)
	case r.Shared && c.wire != nil && c.is(readerSetsTTL):
		c.readerInTwoSteps(r.Key, r.Owner, r.TTL)
	case r.Shared && !r.Wait && c.is(readerFromAnswer):
		sent = time.Now()
	case c.is(grantKept) && r.Wait:
		time.Sleep(rand.N(c.server.latency())) // sleeps: the deadline may pass meanwhile
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, ctx.Err()
		}
	case c.is("cancellation at the grant keeps the key"):
		time.Sleep(rand.N(c.server.latency())) // sleeps: the context may end meanwhile
		if err := kit.ContextError(ctx, nil); err != nil {
			return nil, err
		}
	}
	ttl := r.TTL
	if c.is("deadline stands at MaxSilence") {
		ttl = min(ttl, c.Guarantees().MaxSilence)
	}
	_, unsure := c.copied.LoadAndDelete(r.Owner)
	life, err := c.leases.Grant(ctx, r, kit.Grant{Token: g.token, Sent: sent, TTL: ttl, Unsure: unsure})
	if err == nil {
		if c.server.keepsLives() {
			c.mu.Lock()
			c.lives = append(c.lives, life)
			c.mu.Unlock()
		}
		c.asksAfter(life)
		life.OnLost(func() { c.keep("client keeps leases that have expired", life) })
		if c.is("resumed lease ends with the first client's") {
			life.OnLost(func() { c.server.releaseMode(r.Key, r.Owner, r.Shared) })
		}
		if r.Shared && c.is("goroutine for each reader") {
			go func() { <-c.done }()
		}
		if r.Shared && c.is("loss of a reader is that of its client's others") {
			life.OnLost(func() { c.losesReaders(life) })
		}
	}
	return life, err
}
