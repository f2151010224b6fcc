package readers

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
	plain "github.com/anylock/lock/conformance/specimens/redis"
)

// A store is the twin: small, and right. A writer's lease is a key that holds the owner and expires. Each reader has an
// end of its own in a sorted set. Waiters poll, in the order of a queue. A specimen replaces a step.
type store struct {
	client *redis.Client
	leases *kit.Leases
	calls  specimens.Calls
	steps
	scripts struct{ acquire, renew, release, inspect *redis.Script }
}

// steps are what a specimen may replace. Those of type string are Lua: see the constants of the same names.
type steps struct {
	dropReaders, keepReaders, reads, addReader, renewReader, removeReader, countReaders, lastReader,
	mustWait, enqueue, acquire, release string

	take func(ctx context.Context, s *store, r backend.Request) (answer, error)
}

func right() steps {
	return steps{
		dropReaders: dropReaders, keepReaders: keepReaders, addReader: addReader, reads: reads, renewReader: renewReader,
		removeReader: removeReader, countReaders: countReaders, lastReader: lastReader,
		mustWait: mustWait, enqueue: enqueue, acquire: acquire, release: release,
		take: take,
	}
}

// open returns a function that opens a store in which sin has replaced a step.
func open(sin func(s *steps)) specimens.Open {
	return func(_ context.Context, addrs ...string) (backend.Backend, error) {
		s := &store{client: redis.NewClient(plain.Options(addrs[0])), steps: right()}
		sin(&s.steps)
		functions := arguments + s.dropReaders + dropWaiters + s.keepReaders + s.reads + s.addReader + s.renewReader +
			s.removeReader + s.countReaders + s.lastReader + s.mustWait + s.enqueue + dequeue + describe
		s.scripts.acquire = redis.NewScript(functions + s.acquire)
		s.scripts.renew = redis.NewScript(functions + renew)
		s.scripts.release = redis.NewScript(functions + s.release)
		s.scripts.inspect = redis.NewScript(functions + inspect)
		s.leases = kit.NewLeases(s, plain.Timeout)
		return s, nil
	}
}

var guarantees = backend.Guarantees{
	MinTTL:      100 * time.Millisecond,
	Granularity: time.Millisecond,
	MaxLate:     250 * time.Millisecond, // waiters poll
	EarlyLoss:   "a restart without persistence, a failover, FLUSHALL",
	EnforcedBy:  "server clock",
	Fencing:     backend.FencingProcess,
	FIFO:        true,
	Wake:        backend.WakePoll,
	Consistency: backend.BestEffort,
	Reach:       backend.ReachNetwork,
	Shared:      true,
}

func (s *store) Guarantees() backend.Guarantees { return guarantees }

// run runs a script for an owner of key.
func (s *store) run(ctx context.Context, script *redis.Script, key, owner string, more ...any) *redis.Cmd {
	return script.Run(ctx, s.client, names(key), append([]any{owner}, more...)...)
}

// names are the keys of Redis that a key has: its writer, its readers, its queue with the places of waiters, and the
// counter of its tokens.
func names(key string) []string {
	names := []string{"writer", "readers", "queue", "places", "tokens"}
	for i, name := range names {
		names[i] = "specimen:" + name + ":" + key
	}
	return names
}

// An answer describes a key.
type answer struct {
	token   uint64
	owner   string
	left    time.Duration
	shared  int
	waiters int
}

func (a answer) holder() backend.Holder {
	if a.owner == "" {
		return backend.Holder{}
	}
	return backend.Holder{Owner: a.owner, Token: a.token, TTL: a.left, Waiters: a.waiters, Shared: a.shared}
}

// parse reads the reply of describe.
func parse(reply []any, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	const fields = 5
	if len(reply) == fields {
		token, _ := reply[0].(int64)
		owner, _ := reply[1].(string)
		left, _ := reply[2].(int64)
		shared, _ := reply[3].(int64)
		if waiters, ok := reply[4].(int64); ok {
			return answer{uint64(token), owner, time.Duration(left) * time.Millisecond, int(shared), int(waiters)}, nil
		}
	}
	return answer{}, fmt.Errorf("unexpected reply %v", reply)
}

// take requests the key in one script: no other request can come between its steps.
func take(ctx context.Context, s *store, r backend.Request) (answer, error) {
	return parse(s.run(ctx, s.scripts.acquire, r.Key, r.Owner, r.Shared, r.TTL.Milliseconds(), r.Wait).Slice())
}

// Acquire implements [backend.Backend].
func (s *store) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	request, unsure := r, false
	request.TTL = guarantees.Round(r.TTL)
	return s.leases.Acquire(ctx, r, kit.Waiter{
		Pause: kit.Pause{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond},
		Try: func(ctx context.Context) (backend.Lease, error) {
			sent := time.Now()
			got, err := ask(ctx, s, func(ctx context.Context) (answer, error) { return s.take(ctx, s, request) }, func() {
				s.leases.Abandon(request, request.TTL) // Acquire has returned before
			})
			switch {
			case err != nil:
				unsure = true
				return nil, s.failed(ctx, err)
			case got.token == 0 || got.owner != r.Owner:
				return nil, &backend.HeldError{Holder: got.holder()}
			}
			l, err := s.leases.Grant(ctx, r, kit.Grant{Token: got.token, Sent: sent, TTL: request.TTL, Unsure: unsure})
			if err != nil {
				return nil, err
			}
			return l, nil
		},
	})
}

// RenewLease implements [kit.Requests].
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	_, err := ask(ctx, s, func(ctx context.Context) (answer, error) {
		return answer{}, plain.Done(s.run(ctx, s.scripts.renew, l.Key(), l.Owner(), l.Shared(), ttl.Milliseconds()).Int())
	}, func() {})
	return ttl, s.failed(ctx, err)
}

// ReleaseLease implements [kit.Requests].
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	_, err := ask(ctx, s, func(ctx context.Context) (answer, error) {
		return answer{}, plain.Done(s.run(ctx, s.scripts.release, l.Key(), l.Owner(), l.Shared()).Int())
	}, func() {})
	return s.failed(ctx, err)
}

// Inspect implements [backend.Backend].
func (s *store) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	err = s.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		a, err := ask(ctx, s, func(ctx context.Context) (answer, error) {
			return parse(s.run(ctx, s.scripts.inspect, key, "").Slice())
		}, func() {})
		h = a.holder()
		return s.failed(ctx, err)
	})
	return h, err
}

// ask returns when ctx ends, even if the client is still waiting for a reply. The request runs on until its timeout.
func ask(
	ctx context.Context, s *store, request func(ctx context.Context) (answer, error), late func(),
) (answer, error) {
	return specimens.Ask(ctx, context.WithoutCancel(ctx), &s.calls, plain.Timeout, request, late)
}

// failed returns the error of a request that failed with err.
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
	err := s.client.Close() // ends the requests under way
	s.calls.Wait()
	return err
}
