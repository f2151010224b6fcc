package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// A client is one of a server.
type client struct {
	server *server
	leases *backend.Leases
	done   chan struct{} // closed by Close
	ending sync.Once
	token  uint64        // guarded by server.mu
	wire   *wire         // what lies between, nil for nothing
	skew   time.Duration // of its wall clock

	mu    sync.Mutex
	cut   chan struct{} // closed when connections break
	asked int           // how often for its guarantees
	lives []*backend.Life

	emptied int // how often the server had lost its data when the client came about
}

const requestTimeout = 5 * time.Second

func newClient(s *server) *client {
	s.mu.Lock()
	s.clients++
	emptied := s.emptied
	s.mu.Unlock()
	c := &client{server: s, emptied: emptied, done: make(chan struct{}), cut: make(chan struct{})}
	c.leases = backend.NewLeases(requests{c}, requestTimeout)
	return c
}

func (c *client) is(bugs ...string) bool { return c.server.is(bugs...) }

// isOlder reports whether the server has lost its data since the client came about.
func (c *client) isOlder() bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.emptied != c.server.emptied
}

func (c *client) cutOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.cut)
	c.cut = make(chan struct{})
}

func (c *client) broken() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// do sends a request, which takes its time. The server serves it even if nobody waits for the answer any more.
func (c *client) do(ctx context.Context, serve func()) error {
	if c.wire != nil {
		return c.exchange(ctx, serve)
	}
	if c.is("emptied store is of no use to its clients") && c.isOlder() {
		<-ctx.Done()
		return backend.ContextError(ctx, nil)
	}
	answered := make(chan struct{})
	go func() {
		time.Sleep(rand.N(50 * time.Microsecond))
		c.server.gate.RLock()
		defer c.server.gate.RUnlock()
		serve()
		close(answered)
	}()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return backend.ContextError(ctx, nil)
	}
}

func (c *client) Guarantees() backend.Guarantees {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	g := backend.Guarantees{
		MinTTL: 10 * time.Millisecond, Granularity: 1, MaxLate: 20 * time.Millisecond, EnforcedBy: "clock of the process",
		Fencing: backend.FencingLoss, FIFO: true, Wake: backend.WakePush, Consistency: backend.Linearizable,
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
		g.MaxSilence = time.Second
	}
	return g
}

func (c *client) validate(r backend.Request) error {
	err := r.Validate()
	switch {
	case c.is("longer keys are taken") && backend.ValidateKey(r.Key) != nil && r.Key != "":
	case c.is("TTL 0 is taken") && r.TTL == 0:
	case c.is("long TTL is refused") && r.TTL > time.Hour:
		return fmt.Errorf("%w: ttl %v", backend.ErrInvalid, r.TTL)
	default:
		return err
	}
	return nil
}

func (c *client) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := c.validate(r); err != nil {
		return nil, err
	}
	if c.leases.Closed() && !c.is("closed client works on") {
		return nil, backend.ErrClosed
	}
	if err := backend.ContextError(ctx, nil); err != nil && !c.is("ended context is not looked at") {
		return nil, err
	}
	if c.is("wait ignores the context", "ended context is not looked at") {
		ctx = context.WithoutCancel(ctx)
	}
	r.TTL = max(r.TTL, 10*time.Millisecond)
	life, err := c.acquire(ctx, r)
	if err != nil {
		if c.is("context's error is hidden") && ctx.Err() != nil {
			return nil, errors.New("timeout")
		}
		return nil, err
	}
	return c.bend(ctx, life, r), nil
}

// acquire asks until the key is granted or refused, or ctx ends. It asks again when it may have lost its place.
func (c *client) acquire(ctx context.Context, r backend.Request) (*backend.Life, error) {
	for told := false; ; {
		a, err := c.ask(ctx, r)
		switch {
		case err != nil && told && ctx.Err() == nil && !c.leases.Closed():
			time.Sleep(10 * time.Millisecond) // an outage: it passes
			continue
		case errors.Is(err, errReset) && c.is("attempt sent again meets its own ghost"):
			r.Owner = backend.NewOwner()
			continue
		case err != nil:
			c.unanswered(ctx, r)
			return nil, c.told(c.cutAttempt(r, err))
		case a.granted != granted{}:
			return c.grant(ctx, r, a.granted, a.sent)
		case a.place == nil && c.is("HeldError names the one who asks"):
			return nil, &backend.HeldError{Holder: backend.Holder{Owner: r.Owner}}
		case a.place == nil:
			return nil, &backend.HeldError{Holder: a.holder}
		}
		told = true
		g, err := c.await(ctx, r, a)
		switch {
		case errors.Is(err, errAgain):
			continue
		case err != nil:
			return nil, err
		}
		return c.grant(ctx, r, g, g.at)
	}
}

var errAgain = errors.New("ask again")

// An answer is what the server says to an attempt.
type answer struct {
	granted
	place  *place
	holder backend.Holder
	sent   time.Time
	kicked <-chan struct{} // closed when the place may be lost
	cut    <-chan struct{}
	conn   *conn // that it was asked on, nil without a wire
}

// ask makes one attempt.
func (c *client) ask(ctx context.Context, r backend.Request) (answer, error) {
	a := answer{kicked: c.kicked(), cut: c.broken(), sent: time.Now()}
	if c.wire != nil {
		var err error
		if a.conn, err = c.wire.dial(); err != nil {
			return a, err
		}
	}
	var served answer
	if err := c.do(c.patient(ctx), func() { served.granted, served.place, served.holder = c.server.acquire(c, r) }); err != nil {
		return a, err
	}
	a.granted, a.place, a.holder = served.granted, served.place, served.holder
	return a, nil
}

// await waits for its turn. A broken connection or a restart may have cost the place: then it asks again, by the same owner.
func (c *client) await(ctx context.Context, r backend.Request, a answer) (granted, error) {
	p, kicked, cut, turn := a.place, a.kicked, a.cut, (<-chan granted)(a.place.turn)
	if a.conn != nil {
		over := make(chan struct{})
		defer close(over)
		cut, turn = a.conn.broken, c.turnThrough(a.conn, turn, over)
	}
	switch {
	case c.is("restart parks waiters"):
		kicked = nil
	case c.is("broken connection ends the wait"):
		select {
		case <-cut:
			return granted{}, errors.New("connection reset")
		default:
		}
	}
	if c.is("broken connection parks the waiter") {
		cut = nil
	}
	var tired, impatient <-chan time.Time
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
		if c.is("waiter looks once a second") {
			time.Sleep(time.Second - time.Since(p.since)%time.Second)
		}
		return g, nil
	case <-kicked:
	case <-cut:
		if c.is("broken connection ends the wait") {
			return granted{}, errors.New("connection reset")
		}
	case <-impatient:
	case <-tired:
		return granted{}, context.DeadlineExceeded
	case <-ctx.Done():
		if c.is("waiter that leaves at its turn takes the turn along") {
			c.server.leave(r.Key, r.Owner)
		}
		c.abandon(r)
		if c.is("cancelled wait is ErrHeld") {
			return granted{}, backend.ErrHeld
		}
		return granted{}, backend.ContextError(ctx, nil)
	case <-done:
		if !c.is("waiter of a closed client stays in the queue") {
			c.leave(r)
		}
		return granted{}, backend.ErrClosed
	}
	select {
	case g := <-turn: // it came at the same time
		return g, nil
	default:
	}
	c.leave(r)
	return granted{}, errAgain
}

// leave gives up the place in a queue; a process that was killed does nothing any more.
func (c *client) leave(r backend.Request) {
	if c.wire == nil || !c.wire.isDead() {
		c.server.release(r.Key, r.Owner)
	}
}

func (c *client) kicked() <-chan struct{} {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.server.kick
}

// patient is the context that a request honours.
func (c *client) patient(ctx context.Context) context.Context {
	if c.is("attempt ignores the context while the store hangs") {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (c *client) abandon(r backend.Request) {
	if !c.is("cancelled request is not cleaned up") {
		c.leases.Abandon(r.Key, r.Owner, r.TTL)
	}
}

func (c *client) grant(ctx context.Context, r backend.Request, g granted, sent time.Time) (*backend.Life, error) {
	switch {
	case c.is("deadline counts from the answer"):
		sent = time.Now()
	case c.is("deadline has no margin"):
		sent = sent.Add(backend.Margin(r.TTL))
	case c.is("waiter whose turn came too late waits for ever") && !time.Now().Before(sent.Add(r.TTL)):
		<-c.done
	case c.is("TTL is set by a second request") && c.wire != nil:
		c.twoSteps(r.Key, r.Owner, r.TTL)
	case c.is("cancellation at the grant keeps the key") && ctx.Err() != nil:
		return nil, backend.ContextError(ctx, nil)
	}
	life, err := c.leases.Grant(ctx, r, backend.Grant{Token: g.token, Sent: sent, TTL: r.TTL})
	if err == nil {
		c.mu.Lock()
		c.lives = append(c.lives, life)
		c.mu.Unlock()
	}
	return life, err
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
	if err := backend.ContextError(ctx, nil); err != nil {
		return h, err
	}
	var found backend.Holder // not h, which a late answer would write to
	if err := c.do(ctx, func() { found = c.server.inspect(key) }); err != nil {
		return h, err
	}
	h = found
	const most = 32
	switch {
	case c.is("Inspect cuts the owner") && len(h.Owner) > most:
		h.Owner = h.Owner[:most]
	case c.is("Inspect tells the TTL in milliseconds"):
		h.TTL /= time.Millisecond
	case c.is("Inspect counts the holder as a waiter") && h.Held():
		h.Waiters++
	}
	return h, nil
}

func (c *client) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	errs := c.leases.RenewBatch(ctx, renewals, func(ctx context.Context, lives []*backend.Life, ttls []time.Duration) (
		granted []time.Duration, errs []error,
	) {
		for i, l := range lives {
			ttl, err := requests{c}.RenewLease(ctx, l, ttls[i])
			if c.is("batch renews all for the first TTL") {
				ttl, err = requests{c}.RenewLease(ctx, l, ttls[0])
			}
			granted, errs = append(granted, ttl), append(errs, err)
		}
		return granted, errs
	})
	if c.is("batch tells errors of lost leases only once") {
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
	case c.is("Close leaves a goroutine") && first:
		go func() { <-c.server.stop }()
	case c.is("tokens are forgotten with the last client") && first:
		c.server.forget()
	case c.is("Close drops the store"):
		c.server.drop()
	case c.is("Close waits for an answer") && first:
		for c.wire != nil && c.do(context.Background(), func() {}) != nil {
			time.Sleep(time.Millisecond)
		}
	}
	if first {
		close(c.done)
		if !c.is("Close leaves leases live") {
			c.leases.Close()
		}
	}
	return nil
}

func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients--; s.clients == 0 {
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

// requests are what the leases of a client ask of its server.
type requests struct{ c *client }

func (q requests) RenewLease(ctx context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	ttl = max(ttl, 10*time.Millisecond)
	var ok bool
	err := q.c.do(ctx, func() { ok = q.c.server.renew(l.Key(), l.Owner(), q.c, ttl) })
	if err != nil {
		if err = q.c.cutRenewal(l, err); err == nil {
			return ttl, nil
		}
		if q.c.is("renewal without an answer ends the lease") {
			err = backend.ErrLost
		}
		return 0, err
	}
	if !ok {
		return 0, backend.ErrLost
	}
	return ttl, nil
}

func (q requests) ReleaseLease(ctx context.Context, l *backend.Life) error {
	if q.c.is("release takes the TTL away first") && q.c.wire != nil {
		q.c.twoSteps(l.Key(), l.Owner(), time.Minute)
	}
	var ok bool
	err := q.c.do(ctx, func() { ok = q.c.server.release(l.Key(), l.Owner()) })
	if errors.Is(err, errReset) && q.c.is("release sent again is ErrLost") {
		err = q.c.do(ctx, func() { ok = q.c.server.release(l.Key(), l.Owner()) })
	}
	if err != nil {
		return q.c.cutRelease(err)
	}
	if !ok {
		return backend.ErrLost
	}
	return nil
}
