package zookeeper

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/calls"
)

// A Backend keeps locks in ZooKeeper. It implements [backend.Backend] and [backend.BatchRenewer].
type Backend struct {
	servers    []string
	options    Options
	root       string // of all locks
	auth       []byte // user:password, nil without
	acl        []zk.ACL
	limits     limits
	alone      bool          // there is one server, which has nobody to catch up with
	first      time.Duration // see handshakeFirst
	guarantees backend.Guarantees
	leases     *kit.Leases
	calls      calls.Calls
	turns      turns
	watchAfter time.Duration // see removal.go
	idle       time.Duration // for which an unused session is kept

	mu       sync.Mutex
	sessions map[time.Duration]*session // by class
	shut     bool
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
)

func (b *Backend) dir(key string) string { return b.root + "/" + keyNames.Encode(key) }

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	ttl := b.guarantees.Round(r.TTL)
	a := &attempt{b: b, r: r, ttl: ttl, class: b.limits.session(ttl), begun: time.Now()}
	return b.leases.Acquire(ctx, r, kit.Waiter{
		Try: a.try, Refused: a.lastRefusal, Passing: passing, CleanUp: func() {}, // sessions delete nodes, see doom
		Pause: kit.Pause{Min: 20 * time.Millisecond, Max: time.Second},
	})
}

// Inspect implements [backend.Backend]. It cannot tell how long the lease has left, which its holder alone knows.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	var h backend.Holder
	err := b.onAny(ctx, backend.ValidateKey(key), func(ctx context.Context, s *session) (err error) {
		h, _, err = s.head(ctx, b.dir(key))
		return err
	})
	return h, err
}

// head tells who is the first in the queue of dir, and the name of its node.
func (s *session) head(ctx context.Context, dir string) (_ backend.Holder, node string, _ error) {
	const attempts = 10 // holders may go between the two reads
	for i := 1; ; i++ {
		names, err := s.latest(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			return backend.Holder{}, "", nil
		}
		q := queueOf(names)
		if err != nil || len(q) == 0 {
			return backend.Holder{}, "", err
		}
		c, err := s.get(ctx, dir+"/"+q[0].name)
		if errors.Is(err, zk.ErrNoNode) && i < attempts {
			continue
		}
		if err != nil {
			return backend.Holder{}, "", err
		}
		token, owner, ok := parseRecord(c.data)
		if !ok {
			owner = q[0].owner()
		}
		if token == 0 {
			token = uint64(c.stat.Czxid)
		}
		return backend.Holder{Owner: owner, Token: token, Waiters: len(q) - 1}, q[0].name, nil
	}
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// closeGrace is how long Close waits for requests under way, such as waiters leaving their queues.
const closeGrace = time.Second

// Close implements [backend.Backend]. A session with leases is left to expire, which keeps their keys taken until then;
// the others are closed.
func (b *Backend) Close() error {
	if !b.leases.Close() {
		return nil
	}
	b.waitForUsers(closeGrace)
	b.mu.Lock()
	b.shut = true
	sessions := b.sessions
	b.sessions = make(map[time.Duration]*session)
	b.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		held := len(s.nodes) > 0
		s.mu.Unlock()
		if held {
			s.die(errLeft)
		} else {
			s.die(backend.ErrClosed)
		}
	}
	b.calls.Drain(2 * closeGrace)
	b.calls.Seal()
	return nil
}

// waitForUsers waits until no node is left that has to go, and no attempt that may yet be granted or leave one, or for limit.
func (b *Backend) waitForUsers(limit time.Duration) {
	const pause = 2 * time.Millisecond
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(pause) {
		busy := false
		b.mu.Lock()
		for _, s := range b.sessions {
			s.mu.Lock()
			busy = busy || s.connected && (len(s.doomed) > 0 || s.users > len(s.livesLocked()))
			s.mu.Unlock()
		}
		b.mu.Unlock()
		if !busy {
			return
		}
	}
}
