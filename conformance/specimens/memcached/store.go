package memcached

import (
	"context"
	"errors"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// A store is the twin, as its steps stand: small, and as right as a cache allows. Its lock is an item that holds the
// owner and expires; every change compares the owner and swaps. A specimen replaces a step.
type store struct {
	client *memcache.Client
	leases *kit.Leases
	calls  specimens.Calls
	steps
}

// steps are what a specimen may do otherwise.
type steps struct {
	// take stores the item of owner on key, or returns its owner.
	take func(s *store, key, owner string, ttl time.Duration) (holder string, err error)
	// prolong and remove change the item of owner on key. They return ErrLost if it has none.
	prolong func(s *store, key, owner string, ttl time.Duration) error
	remove  func(s *store, key, owner string) error
	// expiration is what is sent for a TTL.
	expiration func(ttl time.Duration) int32
}

func right() steps {
	return steps{take: take, prolong: prolong, remove: remove, expiration: expiration}
}

// timeout bounds each request.
const timeout = 2 * time.Second

// open returns what opens a store in which sin has replaced a step.
func open(sin func(s *store)) specimens.Open {
	return func(_ context.Context, addrs ...string) (backend.Backend, error) {
		s := &store{steps: right(), client: memcache.New(addrs[0])}
		s.client.Timeout, s.client.MaxIdleConns = timeout, 64
		sin(s)
		s.leases = kit.NewLeases(s, timeout)
		return s, nil
	}
}

var guarantees = backend.Guarantees{
	MinTTL:      time.Second,
	Granularity: time.Second,
	MaxLate:     2500 * time.Millisecond, // what expiration adds, and a slow network
	EarlyLoss:   "eviction by the cache, a restart, flush_all",
	EnforcedBy:  "server clock",
	Fencing:     backend.FencingNone,
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
	a := &specimens.Attempt{Abandon: func() { s.leases.Abandon(r, r.TTL) }}
	request := func(ctx context.Context) (backend.Lease, error) { return s.request(ctx, r, a) }
	if !r.Wait {
		return a.End(request(ctx))
	}
	pause := kit.Pause{Min: 5 * time.Millisecond, Max: 200 * time.Millisecond}
	return a.End(specimens.Poll(ctx, pause, 10*time.Second, request))
}

// request asks for the key once. It returns neither a lease nor an error when the owner is spent.
func (s *store) request(ctx context.Context, r backend.Request, a *specimens.Attempt) (backend.Lease, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	sent := time.Now()
	holder, err := s.ask(ctx, func() (string, error) { return s.take(s, r.Key, r.Owner, r.TTL) }, a.Late)
	if err != nil {
		a.Unanswered()
		return nil, s.failed(ctx, err)
	}
	if holder != r.Owner {
		return nil, &backend.HeldError{Holder: backend.Holder{Owner: holder, Waiters: -1}}
	}
	if l := a.Grant(ctx, s.leases, r, kit.Grant{Sent: sent, TTL: r.TTL}); l != nil {
		return l, nil
	}
	return nil, nil
}

// RenewLease implements [kit.Requests].
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	ttl = guarantees.Round(ttl)
	_, err := s.ask(ctx, func() (string, error) { return "", s.prolong(s, l.Key(), l.Owner(), ttl) }, func() {})
	return ttl, s.failed(ctx, err)
}

// ReleaseLease implements [kit.Requests].
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	_, err := s.ask(ctx, func() (string, error) { return "", s.remove(s, l.Key(), l.Owner()) }, func() {})
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
	owner, err := s.ask(ctx, func() (string, error) { return holder(s, key) }, func() {})
	switch {
	case err != nil:
		return backend.Holder{}, s.failed(ctx, err)
	case owner == "":
		return backend.Holder{}, nil
	}
	return backend.Holder{Owner: owner, Waiters: -1}, nil
}

// ask returns when ctx ends, of which the client library knows nothing. The request runs on until its timeout, and late
// is called at its end then.
func (s *store) ask(ctx context.Context, request func() (string, error), late func()) (string, error) {
	type result struct {
		string
		error
	}
	answered := make(chan result)
	begun := s.calls.Go(func() {
		text, err := request()
		select {
		case answered <- result{text, err}:
		case <-ctx.Done():
			late()
		}
	})
	if !begun {
		return "", backend.ErrClosed
	}
	select {
	case r := <-answered:
		return r.string, r.error
	case <-ctx.Done():
		return "", kit.ContextError(ctx, nil)
	}
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
	var timeout *memcache.ConnectTimeoutError
	if errors.As(err, &timeout) {
		return specimens.Failed(ctx, err, timeout)
	}
	return specimens.Failed(ctx, err)
}

// Close implements [backend.Backend].
func (s *store) Close() error {
	if !s.leases.Close() {
		return nil
	}
	s.calls.Close()
	s.calls.Wait() // bounded by their timeout
	return s.client.Close()
}
