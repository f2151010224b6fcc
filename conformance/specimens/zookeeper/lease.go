package zookeeper

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A lease lives for its TTL, but its deadline is never further away than a session's silence: the keeper moves it on.
type lease struct {
	*kit.Life
	keeper *keeper
	mu     sync.Mutex // held by a renewal
	until  time.Time  // the end of the TTL
}

func (s *store) lease(ctx context.Context, r backend.Request, t *ticket) (backend.Lease, error) {
	life, err := s.leases.Grant(ctx, r, kit.Grant{Token: t.token, Sent: t.sent, TTL: session, Data: t})
	if err != nil {
		return nil, err
	}
	l := &lease{Life: life, keeper: &s.keeper, until: t.sent.Add(promises.Round(r.TTL))}
	s.keeper.add(l)
	life.OnLost(func() { cleanUp(s, t) }) // the session may live on
	return l, nil
}

// Renew implements backend.Lease.
func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := backend.ValidateTTL(ttl); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := time.Now()
	err := l.Life.Renew(ctx, session)
	if err == nil {
		l.until = before.Add(promises.Round(ttl))
	}
	return err
}

// Release implements backend.Lease.
func (l *lease) Release(ctx context.Context) error {
	l.keeper.drop(l)
	return l.Life.Release(ctx)
}

// keep moves the deadline on. It reports whether the lease is over.
func (l *lease) keep(ctx context.Context) (over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.Lost():
		return true
	default:
	}
	if l.until.Sub(l.Deadline()) <= backend.Margin(session) { // of the TTL, which is no shorter
		return false
	}
	_ = l.Life.Renew(ctx, min(session, time.Until(l.until))) // else the deadline stands, and the next beat tries again
	return false
}

// A keeper moves the deadlines of a client's leases on.
type keeper struct {
	mu     sync.Mutex
	leases map[*lease]struct{}
	done   sync.WaitGroup
}

func (k *keeper) add(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leases[l] = struct{}{}
}

func (k *keeper) drop(l *lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.leases, l)
}

func (k *keeper) start(s *store) {
	k.leases = make(map[*lease]struct{})
	k.done.Go(func() {
		for kit.Sleep(s.base, session/4) == nil {
			k.mu.Lock()
			for l := range k.leases {
				k.done.Go(func() {
					if l.keep(s.base) {
						k.drop(l)
					}
				})
			}
			k.mu.Unlock()
		}
	})
}
