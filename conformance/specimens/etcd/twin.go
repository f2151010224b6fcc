// Package etcd has wrong ways to lock with etcd, and the correct store from which they differ.
package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// Open opens the right store: one name in etcd for a key, put under a lease by a transaction that compares. addrs are
// the addresses of the servers.
func Open(_ context.Context, addrs ...string) (backend.Backend, error) { return open(right(), addrs) }

// steps are what a specimen may do in another way.
type steps struct {
	look    func(ctx context.Context, s *store, name string) (look, error)
	seconds func(ttl time.Duration) int64 // etcd's TTL for it
	take    func(ctx context.Context, s *store, h *hold) (look, error)
	granted func(ctx context.Context, s *store, h *hold) // ctx is the one given to Acquire
	await   func(ctx context.Context, s *store, name string, revision int64)
	renew   func(ctx context.Context, s *store, h *hold, ttl time.Duration) (time.Duration, error)
	remove  func(ctx context.Context, s *store, h *hold) error
	abandon func(s *store, r backend.Request, ttl time.Duration) // the outcome of a request is unknown
}

func right() steps {
	return steps{
		look: ask, seconds: roundUp, take: takeIfFree, granted: leaveAlone,
		await: watch, renew: keepAlive, remove: removeOwn, abandon: cleanUp,
	}
}

type store struct {
	steps
	client *clientv3.Client
	leases *kit.Leases
	base   context.Context // ends at Close
	cancel context.CancelFunc
	calls  specimens.Calls

	session atomic.Int64 // a lease for all locks, for a specimen that has one
}

// A hold is a name that was put under a lease.
type hold struct {
	name, owner string

	mu       sync.Mutex
	lease    clientv3.LeaseID
	ttl      time.Duration // of the lease, as granted
	revision int64         // at which the name was created: the token
	moving   bool          // to another lease, by a request without an answer
}

// A look is what etcd returns for a name.
type look struct {
	kv       *mvccpb.KeyValue // nil if it is free
	revision int64            // as of which
}

func (l look) holder() backend.Holder {
	if l.kv == nil {
		return backend.Holder{}
	}
	return backend.Holder{Owner: string(l.kv.Value), Token: uint64(l.kv.CreateRevision), Waiters: -1}
}

// hold is that of who is there.
func (l look) hold() *hold {
	return &hold{name: string(l.kv.Key), lease: clientv3.LeaseID(l.kv.Lease), revision: l.kv.CreateRevision}
}

const (
	requestTimeout = 5 * time.Second
	recheck        = 20 * time.Second // of a waiter that got no event
)

var promises = backend.Guarantees{
	MinTTL:      2 * time.Second, // what a server with the usual election timeout grants at least
	Granularity: time.Second,
	MaxLate:     3 * time.Second, // the leader looks every half second, and its disk may be slow
	EnforcedBy:  "clock of etcd's leader",
	Fencing:     backend.FencingRestart,
	Wake:        backend.WakePush,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachNetwork,
}

func open(how steps, addrs []string) (backend.Backend, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: requestTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	s := &store{steps: how, client: client}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.leases = kit.NewLeases(s, requestTimeout)
	return s, nil
}

func (s *store) Guarantees() backend.Guarantees { return promises }

func (s *store) Close() error {
	s.cancel()
	if !s.leases.Close() {
		return nil
	}
	s.calls.Close()
	s.calls.Wait() // base has ended
	return s.client.Close()
}

func (s *store) ready(ctx context.Context) error {
	if s.leases.Closed() {
		return backend.ErrClosed
	}
	return kit.ContextError(ctx, nil)
}

func nameOf(key string) string { return "specimen/" + key }

func (s *store) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()
	a := &specimens.Attempt{Abandon: func() { s.abandon(s, r, promises.Round(r.TTL)) }}
	l, err := a.End(s.acquire(own, r, a))
	switch {
	case err == nil:
		s.granted(ctx, s, l.(*kit.Life).Data.(*hold))
		return l, nil
	case s.base.Err() != nil:
		return nil, backend.ErrClosed
	case kit.Ended(ctx) && !errors.Is(err, backend.ErrHeld):
		return nil, kit.ContextError(ctx, err)
	}
	return nil, err
}

// acquire tries until the key is granted. Between attempts it waits for the name to be deleted.
func (s *store) acquire(ctx context.Context, r backend.Request, a *specimens.Attempt) (backend.Lease, error) {
	if !r.Wait {
		l, _, err := s.try(ctx, r, a)
		return l, err
	}
	var seen look
	pause := kit.Pause{Min: time.Millisecond, Max: 50 * time.Millisecond}
	return specimens.Poll(ctx, pause, requestTimeout, func(ctx context.Context) (l backend.Lease, err error) {
		if seen.kv != nil {
			s.await(ctx, s, nameOf(r.Key), seen.revision)
		}
		l, seen, err = s.try(ctx, r, a)
		return l, err
	})
}

// try makes one attempt, and returns what it saw of a busy key. It returns neither a lease nor an error when the owner
// is spent.
func (s *store) try(ctx context.Context, r backend.Request, a *specimens.Attempt) (backend.Lease, look, error) {
	seen, err := s.look(ctx, s, nameOf(r.Key))
	switch {
	case err != nil:
		return nil, look{}, err
	case seen.kv != nil && string(seen.kv.Value) == r.Owner: // by an attempt before, whose answer did not come
		if err := s.remove(ctx, s, seen.hold()); err != nil && !errors.Is(err, backend.ErrLost) {
			return nil, look{}, err
		}
	case seen.kv != nil:
		return nil, seen, &backend.HeldError{Holder: seen.holder()}
	}
	h := &hold{name: nameOf(r.Key), owner: r.Owner}
	sent := time.Now()
	if err := s.grant(ctx, h, r.TTL); err != nil {
		return nil, look{}, err // a lease that was granted without our knowing ends by itself
	}
	seen, err = specimens.Ask(ctx, s.base, &s.calls, requestTimeout,
		func(ctx context.Context) (look, error) { return s.take(ctx, s, h) }, a.Late)
	switch {
	case err != nil:
		a.Unanswered()
		return nil, look{}, err
	case seen.kv != nil:
		s.revoke(ctx, h.lease)
		return nil, seen, &backend.HeldError{Holder: seen.holder()}
	}
	token := uint64(h.revision)
	if life := a.Grant(ctx, s.leases, r, kit.Grant{Token: token, Sent: sent, TTL: h.ttl, Data: h}); life != nil {
		return life, look{}, nil
	}
	return nil, look{}, nil
}

// leaveAlone lets the lease live on whatever becomes of the context: that was for the wait.
func leaveAlone(context.Context, *store, *hold) {}

// ask reads a name.
func ask(ctx context.Context, s *store, name string) (look, error) {
	resp, err := s.client.Get(ctx, name)
	if err != nil {
		return look{}, err
	}
	l := look{revision: resp.Header.Revision}
	if len(resp.Kvs) > 0 {
		l.kv = resp.Kvs[0]
	}
	return l, nil
}

// roundUp is a TTL in seconds, at least as long.
func roundUp(ttl time.Duration) int64 { return int64(promises.Round(ttl) / time.Second) }

// grant gets a new lease for h. It counts for as long as the server says, which may be longer than asked.
func (s *store) grant(ctx context.Context, h *hold, ttl time.Duration) error {
	resp, err := s.client.Grant(ctx, s.seconds(ttl))
	if err != nil {
		return err
	}
	h.lease, h.ttl = resp.ID, time.Duration(resp.TTL)*time.Second
	return nil
}

// takeIfFree puts the name if nobody has, in one transaction.
func takeIfFree(ctx context.Context, s *store, h *hold) (look, error) {
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(h.name), "=", 0)).
		Then(clientv3.OpPut(h.name, h.owner, clientv3.WithLease(h.lease))).
		Else(clientv3.OpGet(h.name)).Commit()
	if err != nil {
		return look{}, err
	}
	if resp.Succeeded {
		h.revision = resp.Header.Revision
		return look{}, nil
	}
	return look{resp.Responses[0].GetResponseRange().Kvs[0], resp.Header.Revision}, nil
}

// revoke ends a lease that nothing hangs on. It ends by itself where that fails.
func (s *store) revoke(ctx context.Context, id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = s.client.Revoke(ctx, id)
}

// watch returns when the name was deleted after revision, at which it was there; or after a while in any case.
func watch(ctx context.Context, s *store, name string, revision int64) {
	s.untilDeleted(ctx, name, clientv3.WithRev(revision+1))
}

func (s *store) untilDeleted(ctx context.Context, name string, options ...clientv3.OpOption) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), recheck)
	defer cancel()
	for resp := range s.client.Watch(ctx, name, append(options, clientv3.WithFilterPut())...) {
		if resp.Err() != nil || len(resp.Events) > 0 {
			return
		}
	}
}

// RenewLease implements kit.Requests.
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	h := l.Data.(*hold)
	h.mu.Lock()
	defer h.mu.Unlock()
	granted, err := s.renew(ctx, s, h, ttl)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		err = backend.ErrLost
	}
	return granted, err
}

// keepAlive renews the lease, or moves the name to a new one where the TTL is another. What is over stays over.
func keepAlive(ctx context.Context, s *store, h *hold, ttl time.Duration) (time.Duration, error) {
	if roundUp(ttl) == int64(h.ttl/time.Second) && !h.moving {
		_, err := s.client.KeepAliveOnce(ctx, h.lease)
		return h.ttl, err
	}
	if h.moving {
		if err := h.find(ctx, s); err != nil {
			return 0, err
		}
	}
	next := hold{}
	if err := s.grant(ctx, &next, ttl); err != nil {
		return 0, err
	}
	// What it moves from is compared too: a move without an answer that arrives late must not undo this one.
	resp, err := s.client.Txn(ctx).If(h.isThere(), clientv3.Compare(clientv3.LeaseValue(h.name), "=", h.lease)).
		Then(clientv3.OpPut(h.name, h.owner, clientv3.WithLease(next.lease))).Commit()
	switch {
	case err != nil:
		h.moving = true
		return 0, err
	case !resp.Succeeded && h.moving:
		return 0, errMoved
	case !resp.Succeeded:
		s.revoke(ctx, next.lease)
		return 0, backend.ErrLost
	}
	s.revoke(ctx, h.lease)
	h.lease, h.ttl, h.moving = next.lease, next.ttl, false
	return h.ttl, nil
}

var errMoved = errors.New("the name was put under another lease meanwhile")

// find looks under which lease the name is.
func (h *hold) find(ctx context.Context, s *store) error {
	seen, err := ask(ctx, s, h.name)
	if err == nil && (seen.kv == nil || seen.kv.CreateRevision != h.revision) {
		err = backend.ErrLost
	}
	if err == nil {
		h.lease = clientv3.LeaseID(seen.kv.Lease)
	}
	return err
}

// isThere compares the revision at which the name was created: another holder's is another one.
func (h *hold) isThere() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(h.name), "=", h.revision)
}

// ReleaseLease implements kit.Requests.
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	h, _ := l.Data.(*hold)
	if h == nil { // of a request that went unanswered
		seen, err := ask(ctx, s, nameOf(l.Key()))
		if err != nil {
			return err
		}
		if seen.kv == nil || string(seen.kv.Value) != l.Owner() {
			return backend.ErrLost
		}
		h = seen.hold()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := s.remove(ctx, s, h)
	s.revoke(ctx, h.lease)
	return err
}

// removeOwn deletes the name if it is still the one that was put, in one transaction.
func removeOwn(ctx context.Context, s *store, h *hold) error {
	resp, err := s.client.Txn(ctx).If(h.isThere()).Then(clientv3.OpDelete(h.name)).Commit()
	if err == nil && !resp.Succeeded {
		return backend.ErrLost
	}
	return err
}

// cleanUp removes, in the background, what a request may have left whose answer did not come.
func cleanUp(s *store, r backend.Request, ttl time.Duration) { s.leases.Abandon(r, ttl) }

// Inspect implements backend.Backend.
func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := s.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	seen, err := ask(ctx, s, nameOf(key))
	return seen.holder(), err
}
