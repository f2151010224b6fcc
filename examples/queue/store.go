// Package queue is a small lock server and a store for it, the example of docs/write-a-backend.md for stores on a server
// that queue their waiters. The server keeps everything in memory.
package queue

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
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

// recheck is how long a waiter relies on messages.
const recheck = 2 * time.Second

// A Store is one client of a Server. It is a [backend.Backend].
type Store struct {
	addr    string
	leases  *kit.Leases
	dialing chan struct{} // held by who looks for the connection, and makes it
	conn    *clientConn   // guarded by dialing

	mu    sync.Mutex
	turns map[string]chan struct{} // of owners that wait
}

// Open returns a client of the server at addr.
func Open(ctx context.Context, addr string) (*Store, error) {
	s := &Store{addr: addr, dialing: make(chan struct{}, 1), turns: make(map[string]chan struct{})}
	const requestTimeout = 5 * time.Second // of a release or clean-up
	s.leases = kit.NewLeases(s, requestTimeout)
	if _, err := s.Inspect(ctx, "any"); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Guarantees implements backend.Backend.
func (s *Store) Guarantees() backend.Guarantees { return guarantees }

// Close implements backend.Backend. Waits end first, then what they leave behind is cleaned up, and then nobody needs the connection.
func (s *Store) Close() error {
	if s.leases.Close() {
		s.dialing <- struct{}{} // for ever
		if s.conn != nil {
			s.conn.Close()
			<-s.conn.broken
		}
	}
	return nil
}

// Acquire implements backend.Backend. A waiter asks for the key until it is granted: when the server says that the turn
// has come, when the connection has broken, and from time to time. It listens before it asks, since the message may
// come before the answer.
func (s *Store) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	turn := make(chan struct{}, 1)
	if r.Wait {
		s.mu.Lock()
		s.turns[r.Owner] = turn
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.turns, r.Owner)
		}()
	}
	return s.leases.Acquire(ctx, r, kit.Waiter{
		Try: func(ctx context.Context) (backend.Lease, error) { return s.try(ctx, r) },
		Sleep: func(ctx context.Context) error {
			timer := time.NewTimer(recheck)
			defer timer.Stop()
			select {
			case <-turn:
			case <-timer.C:
			case <-ctx.Done():
			}
			return kit.ContextError(ctx, nil)
		},
		Pause: kit.Pause{Min: time.Millisecond, Max: 50 * time.Millisecond}, // while the server does not reply
	})
}

// try makes one attempt. A waiter's lease counts from the request that found its turn, not from when it began to wait.
func (s *Store) try(ctx context.Context, r backend.Request) (backend.Lease, error) {
	ttl := guarantees.Round(r.TTL)
	sent := time.Now()
	a, err := s.call(ctx, request{Op: "take", Key: []byte(r.Key), Owner: []byte(r.Owner), TTL: ttl, Wait: r.Wait})
	switch {
	case err != nil:
		return nil, err
	case a.Spent:
		return nil, backend.ErrLost
	case !a.Done:
		return nil, &backend.HeldError{Holder: a.holder()}
	}
	return s.leases.Grant(ctx, r, kit.Grant{Token: a.Token, Sent: sent, TTL: ttl})
}

func (a answer) holder() backend.Holder {
	return backend.Holder{Owner: string(a.Holder), Token: a.Token, TTL: a.Left, Waiters: a.Waiters}
}

// Inspect implements backend.Backend.
func (s *Store) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	err = s.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		a, err := s.call(ctx, request{Op: "look", Key: []byte(key)})
		h = a.holder()
		return err
	})
	return h, err
}

// RenewLease implements kit.Requests.
func (s *Store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	return ttl, s.must(ctx, request{Op: "renew", Key: []byte(l.Key()), Owner: []byte(l.Owner()), TTL: ttl})
}

// ReleaseLease implements kit.Requests.
func (s *Store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	return s.must(ctx, request{Op: "release", Key: []byte(l.Key()), Owner: []byte(l.Owner())})
}

// Break implements backend.Breaker.
func (s *Store) Break(ctx context.Context, key, owner string) error {
	return s.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		return s.must(ctx, request{Op: "break", Key: []byte(key), Owner: []byte(owner)})
	})
}

// must is a call that is ErrLost where the server had nothing to do.
func (s *Store) must(ctx context.Context, r request) error {
	a, err := s.call(ctx, r)
	if err == nil && !a.Done {
		err = backend.ErrLost
	}
	return err
}
