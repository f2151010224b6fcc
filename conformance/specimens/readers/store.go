package readers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// A store is the twin, as its steps stand. Each request is one script that sees all of a key: its writer, its readers,
// its queue.
type store struct {
	client *redis.Client
	leases *kit.Leases
	calls  specimens.Calls

	acquire, renew, release, inspect *redis.Script
}

const (
	timeout   = 2 * time.Second // of a request
	heartbeat = 5 * time.Second // a waiter that does not poll for so long has left the queue
)

// open returns what opens a store in which sin has replaced some steps.
func open(sin func(how *steps)) specimens.Open {
	return func(_ context.Context, addrs ...string) (backend.Backend, error) {
		how := right()
		sin(&how)
		s := &store{client: redis.NewClient(options(addrs[0]))}
		s.acquire, s.renew = how.script(acquire), how.script(renew)
		s.release, s.inspect = how.script(release), how.script(inspect)
		s.leases = kit.NewLeases(s, timeout)
		return s, nil
	}
}

func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		MaxRetries: -1, PoolSize: 64, DisableIdentity: true,
	}
}

var guarantees = backend.Guarantees{
	MinTTL:      100 * time.Millisecond,
	Granularity: time.Millisecond,
	MaxLate:     heartbeat + 250*time.Millisecond, // a dead waiter may be first in the queue
	EarlyLoss:   "a restart without persistence, a failover, FLUSHALL",
	EnforcedBy:  "server clock",
	Fencing:     backend.FencingProcess,
	FIFO:        true,
	Wake:        backend.WakePoll,
	Shared:      true,
	Consistency: backend.BestEffort,
	Reach:       backend.ReachNetwork,
}

func (s *store) Guarantees() backend.Guarantees { return guarantees }

// Acquire implements [backend.Backend].
func (s *store) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.ValidateFor(guarantees); err != nil {
		return nil, err
	}
	r.TTL = guarantees.Round(r.TTL)
	a := &specimens.Attempt{Abandon: func() { s.leases.Abandon(r, r.TTL) }}
	try := func(ctx context.Context) (backend.Lease, error) { return s.try(ctx, r, a) }
	if !r.Wait {
		return a.End(try(ctx))
	}
	a.Unanswered() // its place in the queue is to be removed
	const patience = 10 * time.Second
	return a.End(kit.Poll(ctx, kit.Pause{Min: 2 * time.Millisecond, Max: 20 * time.Millisecond}, patience, try))
}

// try asks for the key once. It returns neither a lease nor an error when the owner is spent.
func (s *store) try(ctx context.Context, r backend.Request, a *specimens.Attempt) (backend.Lease, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	sent := time.Now()
	reply, err := s.ask(ctx, func(ctx context.Context) ([]any, error) { return s.take(ctx, r) }, a.Late)
	if err != nil {
		a.Unanswered()
		return nil, s.failed(ctx, err)
	}
	granted, h, err := parse(reply)
	switch {
	case err != nil:
		return nil, err
	case !granted && h.Held():
		return nil, &backend.HeldError{Holder: h}
	case !granted:
		return nil, backend.ErrHeld // somebody waits
	}
	l := a.Grant(ctx, s.leases, r, kit.Grant{Token: h.Token, Sent: sent, TTL: r.TTL})
	if l == nil {
		return nil, nil
	}
	return l, nil
}

// take decides and grants in one script.
func (s *store) take(ctx context.Context, r backend.Request) ([]any, error) {
	return s.acquire.Run(ctx, s.client, names(r.Key), r.Owner, mode(r.Shared), r.TTL.Milliseconds(), waits(r)).Slice()
}

func waits(r backend.Request) int64 {
	if r.Wait {
		return heartbeat.Milliseconds()
	}
	return 0
}

func mode(shared bool) string {
	if shared {
		return "r"
	}
	return "w"
}

// ask makes a request, and calls late if that ends after ctx.
func (s *store) ask(ctx context.Context, request func(ctx context.Context) ([]any, error), late func()) ([]any, error) {
	return specimens.Ask(ctx, context.WithoutCancel(ctx), &s.calls, timeout, request, late)
}

// change runs a script that changes the lease of an owner.
func (s *store) change(ctx context.Context, script *redis.Script, l *kit.Life, ttl time.Duration) error {
	reply, err := s.ask(ctx, func(ctx context.Context) ([]any, error) {
		return script.Run(ctx, s.client, names(l.Key()), l.Owner(), mode(l.Shared()), ttl.Milliseconds()).Slice()
	}, func() {})
	if err == nil && (len(reply) == 0 || reply[0] != int64(1)) {
		return backend.ErrLost
	}
	return s.failed(ctx, err)
}

// RenewLease implements [kit.Requests].
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	ttl = guarantees.Round(ttl)
	return ttl, s.change(ctx, s.renew, l, ttl)
}

// ReleaseLease implements [kit.Requests].
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	return s.change(ctx, s.release, l, 0)
}

// Inspect implements [backend.Backend].
func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := s.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	reply, err := s.ask(ctx, func(ctx context.Context) ([]any, error) {
		return s.inspect.Run(ctx, s.client, names(key)).Slice()
	}, func() {})
	if err != nil {
		return backend.Holder{}, s.failed(ctx, err)
	}
	_, h, err := parse(reply)
	return h, err
}

// parse reads a script's answer: whether it has granted the key, and who holds it.
func parse(reply []any) (granted bool, h backend.Holder, err error) {
	const fields = 6
	if len(reply) != fields {
		return false, h, fmt.Errorf("unexpected reply %v", reply)
	}
	owner, _ := reply[1].(string)
	var n [fields]int64
	for _, i := range []int{0, 2, 3, 4, 5} {
		n[i], _ = reply[i].(int64)
	}
	left := time.Duration(max(n[3], 0)) * time.Millisecond
	h = backend.Holder{Owner: owner, Token: uint64(n[2]), TTL: left, Shared: int(n[4]), Waiters: int(n[5])}
	if owner == "" {
		h = backend.Holder{}
	}
	return n[0] == 1, h, nil
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
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}
