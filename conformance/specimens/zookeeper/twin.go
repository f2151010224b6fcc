// Package zookeeper has wrong ways to lock with ZooKeeper, and the correct store from which they differ.
package zookeeper

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// Open opens the right store: a folder for each key, in it an ephemeral sequential node for everybody who wants it, of
// which the lowest one holds it. addrs are the addresses of the servers.
func Open(ctx context.Context, addrs ...string) (backend.Backend, error) {
	return open(ctx, right(), addrs)
}

// steps are what a specimen may do in another way.
type steps struct {
	flags   int32                     // of a node
	unknown func(s *store, t *ticket) // the node may have been created, or not
	// a waiter's own node has vanished; nil: it has the key
	gone func() error
	// the node before a waiter's has gone; nil: it has the key
	predecessorGone func() error
	confirm         func(ctx context.Context, s *store, t *ticket) error // that the node is there, and the session lives
	remove          func(ctx context.Context, s *store, t *ticket) error
}

// ephemeral nodes end with their session.
const ephemeral int32 = zk.FlagEphemeralSequential

func right() steps {
	return steps{
		flags: ephemeral, unknown: cleanUp, gone: placeLost, predecessorGone: lookAgain, confirm: check, remove: removeOwn,
	}
}

type store struct {
	steps
	conn   *zk.Conn
	leases *kit.Leases
	keeper keeper
	base   context.Context // ends at Close
	cancel context.CancelFunc
	calls  specimens.Calls // that may create something
}

// A ticket is a node of ours.
type ticket struct {
	key, owner string
	mark       string // with which its name begins
	path       string
	sent       time.Time // before what has shown that the key is ours
	token      uint64
}

const (
	session        = 3 * time.Second // what the servers end by themselves when they hear nothing
	tick           = 500 * time.Millisecond
	requestTimeout = 5 * time.Second
	pause          = 50 * time.Millisecond // of a waiter in an outage
	patience       = 15 * time.Second      // of a waiter with servers that do not answer
	recheck        = 10 * time.Second      // of a waiter that got no event
)

var promises = backend.Guarantees{
	MinTTL:      session,
	Granularity: time.Millisecond,
	MaxSilence:  session,
	MaxLate:     session + 2*tick, // the session is as old as its last ping
	EnforcedBy:  "clock of ZooKeeper's leader",
	Fencing:     backend.FencingRestart,
	FIFO:        true,
	Wake:        backend.WakePush,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachNetwork,
}

var everybody = zk.WorldACL(zk.PermAll)

type quiet struct{}

func (quiet) Printf(string, ...any) {}

const root = "/specimen"

func open(ctx context.Context, how steps, addrs []string) (backend.Backend, error) {
	conn, _, err := zk.Connect(addrs, session, zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	s := &store{steps: how, conn: conn}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.leases = kit.NewLeases(s, requestTimeout)
	if _, err := call(ctx, func() (string, error) {
		return conn.Create(root, nil, zk.FlagPersistent,
			everybody)
	}); err != nil &&
		!errors.Is(err, zk.ErrNodeExists) {
		conn.Close()
		return nil, err
	}
	s.keeper.start(s)
	return s, nil
}

func (s *store) Guarantees() backend.Guarantees { return promises }

// Close ends the session, and with it the leases of holders that have been notified.
func (s *store) Close() error {
	s.cancel()
	if s.leases.Close() {
		s.keeper.done.Wait()
		s.calls.Close()
		s.conn.Close()
		s.calls.Wait()
	}
	return nil
}

func (s *store) ready(ctx context.Context) error {
	if s.leases.Closed() {
		return backend.ErrClosed
	}
	return kit.ContextError(ctx, nil)
}

// call makes a request, which the library cannot give up, on a goroutine of its own.
func call[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, kit.ContextError(ctx, nil)
	}
}

var encoding = kit.Encoding{Max: 200}

func folder(key string) string { return root + "/" + encoding.Encode(key) }

func (s *store) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()
	t, err := s.acquire(ctx, r)
	if err == nil {
		return s.lease(ctx, r, t)
	}
	if s.base.Err() != nil {
		err = backend.ErrClosed
	}
	return nil, failed(ctx, err)
}

// failed is the error of a request, as the caller that passed ctx may see it.
func failed(ctx context.Context, err error) error {
	return specimens.Failed(ctx, err, zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionExpired, zk.ErrSessionMoved)
}

// acquire takes a place in the queue and waits for its turn. A waiter outlives an outage, and a session that has ended.
func (s *store) acquire(ctx context.Context, r backend.Request) (*ticket, error) {
	if !r.Wait {
		switch h, err := s.holder(ctx, r.Key); {
		case err != nil:
			return nil, err
		case h.Held():
			return nil, &backend.HeldError{Holder: h}
		}
	}
	t, err := s.take(ctx, r)
	if err != nil {
		return nil, err
	}
	for answered := time.Now(); ; {
		err = s.turn(ctx, t, r.Wait)
		switch {
		case err == nil:
			return t, nil
		case !r.Wait || ctx.Err() != nil || time.Since(answered) > patience:
			cleanUp(s, t)
			return nil, err
		case errors.Is(err, backend.ErrHeld):
			answered = time.Now()
		case errors.Is(err, backend.ErrLost):
			answered = time.Now()
			if next, err := s.take(ctx, r); err == nil {
				t = next
			}
		default:
			_ = kit.Sleep(ctx, pause)
		}
	}
}

// take creates a node at the end of the queue.
func (s *store) take(ctx context.Context, r backend.Request) (*ticket, error) {
	t := &ticket{key: r.Key, owner: r.Owner, mark: backend.NewOwner()}
	err := s.create(ctx, t)
	if err == nil {
		var stat *zk.Stat
		stat, err = call(ctx, func() (*zk.Stat, error) { _, stat, err := s.conn.Exists(t.path); return stat, err })
		if err == nil {
			t.token = uint64(stat.Czxid)
			return t, nil
		}
	}
	s.unknown(s, t)
	return nil, err
}

func (s *store) create(ctx context.Context, t *ticket) (err error) {
	dir := folder(t.key)
	for {
		t.path, err = specimens.Ask(ctx, s.base, &s.calls, requestTimeout, func(context.Context) (string, error) {
			return s.conn.Create(dir+"/"+t.prefix(), []byte(t.owner), s.flags, everybody)
		}, func() { s.unknown(s, t) }) // it may have come behind what the end of ctx began
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		// Servers remove a container that has been empty for a while.
		_, err = call(ctx, func() (string, error) { return s.conn.CreateContainer(dir, nil, zk.FlagContainer, everybody) })
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
}

const infix = "-lock-"

// prefix begins the name of a ticket's node, so that it is found although no reply contained its name.
func (t *ticket) prefix() string { return prefixOf(t.mark) }

func prefixOf(mark string) string {
	sum := sha256.Sum256([]byte(mark))
	return hex.EncodeToString(sum[:16]) + infix
}

// cleanUp removes, in the background, what is there of a ticket. Its owner may have another one by now.
func cleanUp(s *store, t *ticket) {
	s.leases.Abandon(backend.Request{Key: t.key, Owner: t.mark}, session)
}

// turn returns nil when the node of t is the lowest one, and ErrHeld when it is not: after the wait for the one before
// it.
func (s *store) turn(ctx context.Context, t *ticket, wait bool) error {
	t.sent = time.Now()
	names, err := s.queue(ctx, t.key)
	if err != nil {
		return err
	}
	dir := folder(t.key)
	place := slices.Index(names, strings.TrimPrefix(t.path, dir+"/"))
	switch {
	case place < 0:
		return s.gone()
	case place == 0:
		return nil
	case !wait:
		return backend.ErrHeld
	}
	if err := s.untilChanged(ctx, dir+"/"+names[place-1]); err != nil {
		return cmp.Or(kit.ContextError(ctx, backend.ErrHeld), err)
	}
	t.sent = time.Now()
	return s.predecessorGone()
}

// placeLost has the waiter take another place: its session has ended, or somebody has deleted the node.
func placeLost() error { return backend.ErrLost }

// lookAgain has the waiter look at the queue again: the one before may have been another waiter, who has left.
func lookAgain() error { return backend.ErrHeld }

// queue lists the nodes of a key in their order. Numbers wrap at 2³¹.
func (s *store) queue(ctx context.Context, key string) ([]string, error) {
	names, err := call(ctx, func() ([]string, error) { names, _, err := s.conn.Children(folder(key)); return names, err })
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	number := func(name string) int32 {
		_, digits, _ := strings.Cut(name, infix)
		n, _ := strconv.ParseInt(digits, 10, 32)
		return int32(n)
	}
	slices.SortFunc(names, func(a, b string) int { return int(number(a) - number(b)) })
	return names, err
}

// untilChanged waits until the node has gone, or for a while.
func (s *store) untilChanged(ctx context.Context, path string) error {
	events, err := call(ctx, func() (<-chan zk.Event, error) {
		_, _, events, err := s.conn.GetW(path)
		return events,
			err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	late := time.NewTimer(recheck)
	defer late.Stop()
	select {
	case <-events:
	case <-late.C:
	case <-ctx.Done():
	}
	return kit.ContextError(ctx, nil)
}

// RenewLease implements kit.Requests.
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	return ttl, failed(ctx, lostIfGone(s.confirm(ctx, s, l.Data.(*ticket))))
}

func lostIfGone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return backend.ErrLost
	}
	return err
}

// check makes a write that changes nothing and fails without the node. Reads prove less: a server that is cut off from
// the others answers them, and pings too.
func check(ctx context.Context, s *store, t *ticket) error {
	_, err := call(ctx, func() (any, error) {
		return s.conn.Multi(&zk.CheckVersionRequest{Path: t.path, Version: -1})
	})
	return err
}

// ReleaseLease implements kit.Requests.
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	if t, ok := l.Data.(*ticket); ok {
		return failed(ctx, lostIfGone(s.remove(ctx, s, t)))
	}
	names, err := s.queue(ctx, l.Key())
	if err != nil {
		return err
	}
	err = backend.ErrLost
	for _, name := range names {
		if strings.HasPrefix(name, prefixOf(l.Owner())) { // see cleanUp
			if err = s.delete(ctx, folder(l.Key())+"/"+name); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
	}
	return lostIfGone(err)
}

// removeOwn deletes the node that was created for the lease: another holder's has another name.
func removeOwn(ctx context.Context, s *store, t *ticket) error { return s.delete(ctx, t.path) }

func (s *store) delete(ctx context.Context, path string) error {
	_, err := call(ctx, func() (any, error) { return nil, s.conn.Delete(path, -1) })
	return err
}

// holder returns the owner of the lowest node.
func (s *store) holder(ctx context.Context, key string) (backend.Holder, error) {
	for {
		names, err := s.queue(ctx, key)
		if err != nil || len(names) == 0 {
			return backend.Holder{}, err
		}
		var stat *zk.Stat
		owner, err := call(ctx, func() (owner []byte, err error) {
			owner, stat, err = s.conn.Get(folder(key) + "/" + names[0])
			return owner, err
		})
		if err == nil {
			return backend.Holder{Owner: string(owner), Token: uint64(stat.Czxid), Waiters: len(names) - 1}, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return backend.Holder{}, err
		}
	}
}

// Inspect implements backend.Backend.
func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := s.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	h, err := s.holder(ctx, key)
	return h, failed(ctx, err)
}
