// Package queue is a lock server of its own and a store for it. It is the example of docs/write-a-backend.md for stores on a server that
// queue their waiters: small and complete. The server keeps everything in memory.
package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var guarantees = backend.Guarantees{
	MinTTL:      20 * time.Millisecond,
	EarlyLoss:   "a restart of the server forgets all leases",
	EnforcedBy:  "monotonic clock of the server",
	Fencing:     backend.FencingLoss, // see Server.grant
	FIFO:        true,
	Wake:        backend.WakePush,
	Consistency: backend.BestEffort,
	Reach:       backend.ReachNetwork,
}

const (
	askAgain = 2 * time.Second  // by a waiter that was told nothing
	patience = 10 * time.Second // of a waiter, with a server that cannot be reached
)

// A Store is one client of a Server. It is a [backend.Backend].
type Store struct {
	addr    string
	leases  *backend.Leases
	open    context.Context // until Close
	close   context.CancelFunc
	dialing chan struct{} // held by who looks for the connection, and makes it
	conn    *clientConn   // guarded by dialing

	mu    sync.Mutex
	calls sync.WaitGroup           // of Acquire and Inspect; none begins after Close
	turns map[string]chan struct{} // of owners that wait
}

// Open returns a client of the server at addr.
func Open(ctx context.Context, addr string) (*Store, error) {
	s := &Store{addr: addr, dialing: make(chan struct{}, 1), turns: make(map[string]chan struct{})}
	s.open, s.close = context.WithCancel(context.Background())
	const requestTimeout = 5 * time.Second // of a release or clean-up
	s.leases = backend.NewLeases(s, requestTimeout)
	if _, err := s.call(ctx, request{Op: "look"}); err != nil {
		s.Close()
		return nil, failed(ctx, err)
	}
	return s, nil
}

// Guarantees implements backend.Backend.
func (s *Store) Guarantees() backend.Guarantees { return guarantees }

// Close implements backend.Backend. Waits end first, then what they leave behind is cleaned up, and then nobody needs the connection.
func (s *Store) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.calls.Wait()
	if s.leases.Close() {
		s.dialing <- struct{}{} // for ever
		if s.conn != nil {
			s.conn.Close()
			<-s.conn.broken
		}
	}
	return nil
}

// begin returns a context that ends with Close, which waits until end is called.
func (s *Store) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.Err() != nil {
		return nil, nil, backend.ErrClosed
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return nil, nil, err
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.open, cancel)
	return ctx, func() { stop(); cancel(); s.calls.Done() }, nil
}

// Acquire implements backend.Backend.
func (s *Store) Acquire(ctx context.Context, r backend.Request) (l backend.Lease, err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if r.Wait {
		l, err = s.wait(ctx, r)
	} else {
		l, err = s.try(ctx, r)
	}
	if err != nil && (!errors.Is(err, backend.ErrHeld) || backend.IsContextError(err)) {
		s.leases.Abandon(r.Key, r.Owner, guarantees.Round(r.TTL)) // the lease, or the place in the queue
	}
	if err != nil && s.open.Err() != nil {
		err = backend.ErrClosed
	}
	return l, err
}

// wait asks for the key until it is granted: when the server says that the turn has come, when the connection has broken, and from time to
// time. It listens before it asks, since the message may come before the answer.
func (s *Store) wait(ctx context.Context, r backend.Request) (backend.Lease, error) {
	turn := make(chan struct{}, 1)
	s.mu.Lock()
	s.turns[r.Owner] = turn
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.turns, r.Owner)
	}()
	queued := false
	pause := backend.Pause{Min: time.Millisecond, Max: 50 * time.Millisecond} // after each answer, and while there is none
	return backend.Poll(ctx, pause, patience, func(ctx context.Context) (backend.Lease, error) {
		if queued {
			again := time.NewTimer(askAgain)
			defer again.Stop()
			select {
			case <-turn:
			case <-again.C:
			case <-ctx.Done():
			}
		}
		l, err := s.try(ctx, r)
		queued = errors.Is(err, backend.ErrHeld)
		return l, err
	})
}

// try makes one attempt. A waiter's lease counts from the request that found its turn, not from when it began to wait.
func (s *Store) try(ctx context.Context, r backend.Request) (backend.Lease, error) {
	ttl := guarantees.Round(r.TTL)
	sent := time.Now()
	a, err := s.call(ctx, request{Op: "take", Key: []byte(r.Key), Owner: []byte(r.Owner), TTL: ttl, Wait: r.Wait})
	switch {
	case err != nil:
		return nil, failed(ctx, err)
	case a.Spent:
		return nil, backend.ErrLost
	case !a.Done:
		return nil, &backend.HeldError{Holder: a.holder()}
	}
	life, err := s.leases.Grant(ctx, r, backend.Grant{Token: a.Token, Sent: sent, TTL: ttl})
	if err != nil {
		return nil, err
	}
	return life, nil
}

// failed is err, or the context's if that has ended.
func failed(ctx context.Context, err error) error {
	if ended := backend.ContextError(ctx, err); ended != nil {
		return ended
	}
	return err
}

func (a answer) holder() backend.Holder {
	return backend.Holder{Owner: string(a.Holder), Token: a.Token, TTL: a.Left, Waiters: a.Waiters}
}

// Inspect implements backend.Backend.
func (s *Store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return backend.Holder{}, err
	}
	defer end()
	a, err := s.call(ctx, request{Op: "look", Key: []byte(key)})
	if err != nil && s.open.Err() != nil {
		return backend.Holder{}, backend.ErrClosed
	} else if err != nil {
		return backend.Holder{}, failed(ctx, err)
	}
	return a.holder(), nil
}

// RenewLease implements backend.Requests.
func (s *Store) RenewLease(ctx context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	return ttl, s.must(ctx, request{Op: "renew", Key: []byte(l.Key()), Owner: []byte(l.Owner()), TTL: ttl})
}

// ReleaseLease implements backend.Requests.
func (s *Store) ReleaseLease(ctx context.Context, l *backend.Life) error {
	return s.must(ctx, request{Op: "release", Key: []byte(l.Key()), Owner: []byte(l.Owner())})
}

// Break implements backend.Breaker.
func (s *Store) Break(ctx context.Context, key, owner string) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	switch err := s.must(ctx, request{Op: "break", Key: []byte(key), Owner: []byte(owner)}); {
	case err == nil, errors.Is(err, backend.ErrLost):
		return err
	case s.open.Err() != nil:
		return backend.ErrClosed
	default:
		return failed(ctx, err)
	}
}

// must is a call that is ErrLost where the server had nothing to do.
func (s *Store) must(ctx context.Context, r request) error {
	a, err := s.call(ctx, r)
	if err == nil && !a.Done {
		err = backend.ErrLost
	}
	return err
}
