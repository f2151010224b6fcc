package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
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
	root       string // contains all locks
	limits     limits
	standalone bool // the only server is standalone, so its reads are current
	guarantees backend.Guarantees
	leases     *kit.Leases
	calls      calls.Calls
	watchAfter time.Duration // see the constant
	idle       time.Duration // how long an unused session is kept

	mu       sync.Mutex
	sessions map[time.Duration]*session // by class; nil once Close ends them
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
)

// New returns a Backend on the ensemble of servers, each host:port. It connects to the ensemble, within ctx, to learn
// which session timeouts the servers grant.
//
// New does not accept a *zk.Conn of the application. A *zk.Conn is one session with one timeout, but leases with
// different TTLs need sessions with different timeouts. It also replaces an expired session by itself, and exposes
// neither its servers nor its credentials. Use Options.Dial to configure connections.
func New(ctx context.Context, servers []string, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("%w: no servers", backend.ErrInvalid)
	}
	for _, s := range servers {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("%w: server %q is not host:port", backend.ErrInvalid, s)
		}
	}
	b := &Backend{
		servers:    append([]string(nil), servers...),
		options:    o,
		root:       o.Chroot + allLocks,
		sessions:   make(map[time.Duration]*session),
		limits:     defaultLimits(),
		watchAfter: watchAfter,
		idle:       idleTime,
	}
	b.leases = kit.NewLeases(requests{b}, 2*o.Timeout)
	err = b.findLimits(ctx)
	if err == nil {
		err = b.prepare(ctx)
	}
	if err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, unavailable(ctx, err)
	}
	return b, nil
}

// usualTTL is the default TTL of package lock.
const usualTTL = 30 * time.Second

// prepare opens the session that is most likely to be needed, checks the server's version, and creates the root.
func (b *Backend) prepare(ctx context.Context) error {
	s, err := b.checkOut(b.limits.sessionTimeout(usualTTL))
	if err != nil {
		return err
	}
	defer b.checkIn(s)
	// Repeat the request, because the server that is tried first may hang for the whole time limit of a request.
	for end := time.Now().Add(openTimeout); ; {
		err = s.checkContainers(ctx)
		if !errors.Is(err, backend.ErrUnavailable) || time.Now().After(end) {
			break
		}
	}
	if err == nil {
		if _, missing := s.childCount(ctx, b.root); errors.Is(missing, zk.ErrNoNode) {
			err = s.createRoot(ctx)
		}
	}
	if err == nil && len(b.servers) == 1 {
		text, _ := b.describe(ctx, b.servers[0], "srvr")
		b.standalone = strings.Contains(text, "\nMode: standalone")
	}
	return err
}

// checkContainers returns ErrUnsupported if the server does not support containers. It requests a container that
// exists, so the request changes nothing.
func (s *session) checkContainers(ctx context.Context) error {
	const unimplemented = ": -6" // the suffix of the library's error for an unknown code
	_, err := awaitIdempotent(ctx, s, func(c *zk.Conn) (string, error) {
		return c.CreateContainer(rootPath, nil, zk.FlagContainer, s.b.options.ACL)
	})
	switch {
	case err == nil || isReply(err):
		return nil
	case strings.HasSuffix(err.Error(), unimplemented):
		return fmt.Errorf("%w: the server knows no containers; ZooKeeper 3.5.1 or newer is needed", backend.ErrUnsupported)
	}
	return err
}

// dir returns the path of a key's container.
func (b *Backend) dir(key string) string { return b.root + "/" + keyNames.Encode(key) }

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// call runs f with any session, as one call of a method of Backend. If invalid is not nil, call returns it instead.
func (b *Backend) call(ctx context.Context, invalid error, f func(ctx context.Context, s *session) error) error {
	return b.leases.Call(ctx, invalid, func(ctx context.Context) error {
		s, err := b.checkOutAny(b.limits.longest)
		if err != nil {
			return err
		}
		defer b.checkIn(s)
		return unavailable(ctx, f(ctx, s))
	})
}

// Inspect implements [backend.Backend]. It does not report how long the lease lasts, because only its holder knows.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	var h backend.Holder
	err := b.call(ctx, backend.ValidateKey(key), func(ctx context.Context, s *session) (err error) {
		h, err = s.inspect(ctx, b.dir(key))
		return err
	})
	return h, err
}

// inspect returns the holder of the key whose container is dir, or the zero Holder if the queue is empty.
func (s *session) inspect(ctx context.Context, dir string) (h backend.Holder, err error) {
	for range 10 { // a holder may release its lease between the two reads
		names, err := s.currentChildren(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			return backend.Holder{}, nil
		}
		q := queueOf(names)
		holders := holdersOf(q)
		if err != nil || len(holders) == 0 {
			return backend.Holder{}, err
		}
		h = holder(q, holders)
		h.Token, err = s.token(ctx, dir+"/"+holders[len(holders)-1].name)
		if !errors.Is(err, zk.ErrNoNode) {
			return h, err
		}
	}
	return h, nil // without a token, because holders change faster than the reads
}

// closeTimeout limits how long Close waits for the end of sessions.
const closeTimeout = 2 * time.Second

// Close implements [backend.Backend]. It lets a session with leases expire, so that their keys stay taken until then,
// and closes the other sessions.
func (b *Backend) Close() error {
	if !b.leases.Close() {
		return nil
	}
	b.mu.Lock()
	sessions := b.sessions
	b.sessions = nil
	b.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		reason := backend.ErrClosed
		if len(s.nodes) > 0 {
			reason = errLeftToExpire
		}
		s.mu.Unlock()
		s.end(reason)
	}
	b.calls.Close(closeTimeout)
	return nil
}
