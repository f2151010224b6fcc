package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// A store is the twin, as its steps stand: small, and right. Its lock is a key of Redis that holds the owner and
// expires; the scripts that compare the owner run in the server. A specimen replaces a step.
type store struct {
	client *redis.Client
	leases *kit.Leases
	calls  specimens.Calls
	steps
}

// steps are what a specimen may do otherwise.
type steps struct {
	// take grants the key to r.Owner, or returns the holder.
	take func(ctx context.Context, s *store, r backend.Request) (answer, error)
	// prolong and remove change the lock of owner on key. They return ErrLost if it has none.
	prolong func(ctx context.Context, s *store, key, owner string, ttl time.Duration) error
	remove  func(ctx context.Context, s *store, key, owner string) error
	// look returns the holder.
	look func(ctx context.Context, s *store, key string) (answer, error)
	// ask makes a request, and calls late if that ends after ctx.
	ask func(ctx context.Context, s *store, request request, late func()) (answer, error)
	// wait calls try until the key is granted.
	wait func(ctx context.Context, s *store, r backend.Request, try try) (backend.Lease, error)
	// sent is the time from which a lease's deadline counts, of a request between before and after.
	sent func(before, after time.Time) time.Time
	// abandon removes what a request without an answer may leave behind.
	abandon func(s *store, r backend.Request)
	// hand makes of a granted lease what the application gets.
	hand func(s *store, l *kit.Life) backend.Lease
	// afterRelease is called after a release.
	afterRelease func(s *store, key string)
}

type (
	request func(ctx context.Context) (answer, error)
	try     func(ctx context.Context) (backend.Lease, error)
)

// An answer is what Redis says of a key.
type answer struct {
	token uint64
	owner string
	left  time.Duration
}

func right() steps {
	return steps{
		take: take, prolong: prolong, remove: remove, look: look, ask: ask, wait: wait,
		sent:         func(before, _ time.Time) time.Time { return before },
		abandon:      func(s *store, r backend.Request) { s.leases.Abandon(r, r.TTL) },
		hand:         func(_ *store, l *kit.Life) backend.Lease { return l },
		afterRelease: func(*store, string) {},
	}
}

// Timeout bounds each request.
const Timeout = 2 * time.Second

// open returns what opens a store in which sin has replaced a step.
func open(sin func(s *store)) specimens.Open {
	return func(_ context.Context, addrs ...string) (backend.Backend, error) {
		s := &store{steps: right()}
		s.client = redis.NewClient(Options(addrs[0]))
		sin(s)
		s.leases = kit.NewLeases(s, Timeout)
		return s, nil
	}
}

// Options returns the options of a client of the server at addr.
func Options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, DialTimeout: Timeout, ReadTimeout: Timeout, WriteTimeout: Timeout,
		MaxRetries: -1, // a request that is repeated unasked must know its own traces
		PoolSize:   64, DisableIdentity: true,
	}
}

// repeating has the client library repeat requests whose connection broke, as it does by default.
func repeating(s *store) {
	o := Options(s.client.Options().Addr)
	o.MaxRetries = 3
	_ = s.client.Close()
	s.client = redis.NewClient(o)
}

var guarantees = backend.Guarantees{
	MinTTL:      100 * time.Millisecond,
	Granularity: time.Millisecond,
	MaxLate:     250 * time.Millisecond, // expiry counts in milliseconds, and waiters poll
	EarlyLoss:   "a restart without persistence, a failover, FLUSHALL",
	EnforcedBy:  "server clock",
	Fencing:     backend.FencingProcess,
	Wake:        backend.WakePoll,
	Consistency: backend.BestEffort,
	Reach:       backend.ReachNetwork,
}

func (s *store) Guarantees() backend.Guarantees { return guarantees }

// Acquire implements [backend.Backend].
func (s *store) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	r.TTL = guarantees.Round(r.TTL)
	a := &specimens.Attempt{Abandon: func() { s.abandon(s, r) }}
	request := func(ctx context.Context) (backend.Lease, error) { return s.request(ctx, r, a) }
	if !r.Wait {
		return a.End(request(ctx))
	}
	return a.End(s.wait(ctx, s, r, request))
}

// request asks for the key once. It returns neither a lease nor an error when the owner is spent.
func (s *store) request(ctx context.Context, r backend.Request, a *specimens.Attempt) (backend.Lease, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	before := time.Now()
	got, err := s.ask(ctx, s, func(ctx context.Context) (answer, error) { return s.take(ctx, s, r) }, a.Late)
	switch {
	case err == nil && got.owner != r.Owner:
		return nil, &backend.HeldError{Holder: got.holder()}
	case errors.Is(err, backend.ErrHeld):
		return nil, err
	case err != nil:
		a.Unanswered()
		return nil, s.failed(ctx, err)
	}
	l := a.Grant(ctx, s.leases, r, kit.Grant{Token: got.token, Sent: s.sent(before, time.Now()), TTL: r.TTL})
	if l == nil {
		return nil, nil
	}
	return s.hand(s, l), nil
}

// RenewLease implements [kit.Requests].
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	ttl = guarantees.Round(ttl)
	_, err := s.ask(ctx, s, func(ctx context.Context) (answer, error) {
		return answer{}, s.prolong(ctx, s, l.Key(), l.Owner(), ttl)
	}, func() {})
	return ttl, s.failed(ctx, err)
}

// ReleaseLease implements [kit.Requests].
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	_, err := s.ask(ctx, s, func(ctx context.Context) (answer, error) {
		return answer{}, s.remove(ctx, s, l.Key(), l.Owner())
	}, func() {})
	if err == nil {
		s.afterRelease(s, l.Key())
	}
	return s.failed(ctx, err)
}

// Inspect implements [backend.Backend].
func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := s.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	a, err := s.ask(ctx, s, func(ctx context.Context) (answer, error) {
		return s.look(ctx, s, key)
	}, func() {})
	if err != nil {
		return backend.Holder{}, s.failed(ctx, err)
	}
	return a.holder(), nil
}

func (a answer) holder() backend.Holder {
	if a.owner == "" {
		return backend.Holder{}
	}
	return backend.Holder{Owner: a.owner, Token: a.token, TTL: a.left, Waiters: -1}
}

func (s *store) ready(ctx context.Context) error {
	if s.leases.Closed() {
		return backend.ErrClosed
	}
	return kit.ContextError(ctx, nil)
}

// failed is the error of a request that failed with err.
func (s *store) failed(ctx context.Context, err error) error {
	if err != nil && s.leases.Closed() {
		return backend.ErrClosed
	}
	return specimens.Failed(ctx, err)
}

// Close implements [backend.Backend].
func (s *store) Close() error {
	if !s.leases.Close() {
		return nil
	}
	s.calls.Close()
	err := s.client.Close() // ends what is under way
	s.calls.Wait()
	return err
}
