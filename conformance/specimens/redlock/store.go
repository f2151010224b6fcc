package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// A store is the twin, as its steps stand: the published algorithm, small, over nodes that keep their data. A lease is
// what a majority of the nodes has granted. A specimen replaces a step.
type store struct {
	nodes  []*redis.Client
	leases *kit.Leases
	calls  specimens.Calls
	steps
}

// steps are what a specimen may do otherwise.
type steps struct {
	// enough reports whether so many nodes of all decide, when so many have answered.
	enough func(yes, answered, all int) bool
	// prolong prolongs the lock of owner on one node, and reports whether it has one there.
	prolong func(ctx context.Context, node *redis.Client, key, owner string, ttl time.Duration) (bool, error)
	// sent is the time from which a lease's deadline counts, of requests between before and after.
	sent func(before, after time.Time) time.Time
	// debtors are the nodes that a lock must be removed from, when those in granted have granted it.
	debtors func(all []*redis.Client, granted []int) []*redis.Client
	// lose gives back what an attempt has got that was refused.
	lose func(ctx context.Context, s *store, r backend.Request, granted []int)
	// patience is how long a node may take.
	patience time.Duration
}

func right() steps {
	return steps{
		enough: majority, prolong: prolong, lose: lose, patience: patience,
		sent:    func(before, _ time.Time) time.Time { return before },
		debtors: everyNode,
	}
}

// patience with one node: it must not take the time that the lease has.
const patience = 500 * time.Millisecond

// open returns what opens a store in which sin has replaced a step.
func open(sin func(s *store)) specimens.Open {
	return func(_ context.Context, addrs ...string) (backend.Backend, error) {
		s := &store{steps: right()}
		sin(s)
		for _, addr := range addrs {
			s.nodes = append(s.nodes, redis.NewClient(&redis.Options{
				Addr: addr, ContextTimeoutEnabled: true, DialTimeout: s.patience, ReadTimeout: s.patience,
				WriteTimeout: s.patience, MaxRetries: -1, DialerRetries: 1, PoolSize: 64, DisableIdentity: true,
			}))
		}
		s.leases = kit.NewLeases(s, 2*s.patience)
		return s, nil
	}
}

var guarantees = backend.Guarantees{
	MinTTL:      200 * time.Millisecond,
	Granularity: time.Millisecond,
	MaxLate:     500 * time.Millisecond, // waiters poll, and votes may be split
	EarlyLoss:   "nodes that come back without their data",
	EnforcedBy:  "the nodes' clocks",
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
	pause := kit.Pause{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond} // random, so that votes are split once only
	return a.End(specimens.Poll(ctx, pause, 10*time.Second, request))
}

// request asks every node for the key once. It returns neither a lease nor an error when the owner is spent.
func (s *store) request(ctx context.Context, r backend.Request, a *specimens.Attempt) (backend.Lease, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	before := time.Now()
	t := s.poll(ctx, s.nodes, func(ctx context.Context, node *redis.Client) (vote, error) { return take(ctx, node, r) },
		a.Late)
	granted := t.which(func(v vote) bool { return v.owner == r.Owner })
	if ctx.Err() == nil && s.enough(len(granted), t.answered(), len(s.nodes)) {
		g := kit.Grant{Sent: s.sent(before, time.Now()), TTL: r.TTL, Data: granted}
		if l := a.Grant(ctx, s.leases, r, g); l != nil {
			return l, nil
		}
		return nil, nil
	}
	err := t.failed()
	if err != nil || ctx.Err() != nil { // a node may have granted it all the same
		a.Unanswered()
	}
	s.lose(ctx, s, r, granted)
	if t.answered() <= len(s.nodes)/2 || ctx.Err() != nil {
		return nil, s.failedBy(ctx, err)
	}
	return nil, &backend.HeldError{Holder: t.holder(r.Owner)}
}

// RenewLease implements [kit.Requests].
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	ttl = guarantees.Round(ttl)
	t := s.poll(ctx, s.nodes, func(ctx context.Context, node *redis.Client) (vote, error) {
		ok, err := s.prolong(ctx, node, l.Key(), l.Owner(), ttl)
		return vote{yes: ok}, err
	}, func() {})
	yes := len(t.which(func(v vote) bool { return v.yes }))
	if s.enough(yes, t.answered(), len(s.nodes)) {
		return ttl, nil
	}
	if yes+len(s.nodes)-t.answered() >= len(s.nodes)/2+1 { // it hangs on nodes that have not answered
		return 0, s.failedBy(ctx, t.failed())
	}
	return 0, backend.ErrLost
}

// ReleaseLease implements [kit.Requests].
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	granted, _ := l.Data.([]int)
	t := s.poll(ctx, s.debtors(s.nodes, granted), func(ctx context.Context, node *redis.Client) (vote, error) {
		ok, err := remove(ctx, node, l.Key(), l.Owner())
		return vote{yes: ok}, err
	}, func() {})
	yes := len(t.which(func(v vote) bool { return v.yes }))
	err := t.failed()
	switch {
	case err != nil && (l.Data == nil || t.answered() <= len(s.nodes)/2): // of an abandoned owner nothing may be left
		return s.failedBy(ctx, err)
	case err != nil:
		s.leases.Abandon(backend.Request{Key: l.Key(), Owner: l.Owner()}, guarantees.MinTTL)
		if yes > 0 {
			return nil
		}
	case l.Data == nil && yes > 0 && yes < len(s.nodes): // those that had nothing may get it yet
		return errPart
	case yes > len(s.nodes)/2:
		return nil
	}
	return backend.ErrLost
}

var errPart = errors.New("removed from a part of the nodes")

// Inspect implements [backend.Backend]: the holder is whom a majority names.
func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := s.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	t := s.poll(ctx, s.nodes, func(ctx context.Context, node *redis.Client) (vote, error) { return look(ctx, node, key) },
		func() {})
	h := t.holder("")
	if h.Owner != "" || t.answered() > len(s.nodes)/2 && ctx.Err() == nil {
		return h, nil
	}
	return h, s.failedBy(ctx, t.failed())
}

func (s *store) ready(ctx context.Context) error {
	if s.leases.Closed() {
		return backend.ErrClosed
	}
	return kit.ContextError(ctx, nil)
}

func (s *store) failedBy(ctx context.Context, err error) error {
	if s.leases.Closed() {
		return backend.ErrClosed
	}
	if err == nil {
		return kit.ContextError(ctx, nil)
	}
	return specimens.Failed(ctx, err)
}

// Close implements [backend.Backend].
func (s *store) Close() error {
	if !s.leases.Close() {
		return nil
	}
	s.calls.Close()
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Close()) // ends what is under way
	}
	s.calls.Wait()
	return errors.Join(errs...)
}
