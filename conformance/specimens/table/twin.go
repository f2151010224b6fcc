// Package table has wrong ways to lock with a table of a database, and the correct store from which they differ. The
// database is Postgres, but could be any other.
package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/conformance/specimens/internal/pgpool"
)

// Open opens the right store: a row for each key, which one statement takes if it is free by the server's clock. addrs
// is the address of one server.
func Open(ctx context.Context, addrs ...string) (backend.Backend, error) {
	return open(ctx, right(), addrs)
}

// steps are what a specimen may do in another way.
type steps struct {
	schema string
	take   func(ctx context.Context, c *pgx.Conn, r backend.Request, ttl time.Duration) (row, error)
	renew  func(ctx context.Context, c *pgx.Conn, key, owner string, ttl time.Duration) (found bool, err error)
	remove func(ctx context.Context, c *pgx.Conn, key, owner string) (found bool, err error)
	read   func(ctx context.Context, c *pgx.Conn, key string) (row, error)
}

func right() steps {
	return steps{schema: schema, take: take, renew: renew, remove: remove, read: read}
}

type store struct {
	steps
	pool   *pgpool.Pool
	leases *kit.Leases
	base   context.Context // ends at Close
	cancel context.CancelFunc
	calls  specimens.Calls
}

// A row is who holds a key.
type row struct {
	owner string // empty if nobody does
	token int64
	left  time.Duration
}

func (r row) holder() backend.Holder {
	if r.owner == "" {
		return backend.Holder{}
	}
	return backend.Holder{Owner: r.owner, Token: uint64(r.token), TTL: r.left, Waiters: -1}
}

const (
	poolSize       = 8
	requestTimeout = 5 * time.Second
)

var promises = backend.Guarantees{
	MinTTL:      50 * time.Millisecond,
	Granularity: time.Millisecond,
	EnforcedBy:  "server clock",
	Fencing:     backend.FencingRestart,
	Wake:        backend.WakePoll,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachNetwork,
}

func open(ctx context.Context, how steps, addrs []string) (backend.Backend, error) {
	p, err := pgpool.New(addrs[0], poolSize)
	if err != nil {
		return nil, err
	}
	s := &store{steps: how, pool: p}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.leases = kit.NewLeases(s, requestTimeout)
	// Two that create a table at once may both fail: one after the other, by a lock.
	const create = "BEGIN; SELECT pg_advisory_xact_lock(0); %s; COMMIT"
	if err := s.use(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, fmt.Sprintf(create, s.schema), pgx.QueryExecModeSimpleProtocol)
		return err
	}); err != nil {
		p.Close()
		return nil, err
	}
	return s, nil
}

// use lends a connection to f.
func (s *store) use(ctx context.Context, f func(c *pgx.Conn) error) error {
	c, err := s.pool.Borrow(ctx)
	if err != nil {
		return err
	}
	defer s.pool.GiveBack(c)
	return f(c)
}

func (s *store) Guarantees() backend.Guarantees { return promises }

func (s *store) Close() error {
	s.cancel()
	if s.leases.Close() {
		s.calls.Close()
		s.calls.Wait() // base has ended
		s.pool.Close()
	}
	return nil
}

func (s *store) ready(ctx context.Context) error {
	if s.leases.Closed() {
		return backend.ErrClosed
	}
	return kit.ContextError(ctx, nil)
}

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
	a := &specimens.Attempt{Abandon: func() { s.leases.Abandon(r, promises.Round(r.TTL)) }}
	l, err := a.End(s.acquire(ctx, r, a))
	if err != nil && s.base.Err() != nil {
		return nil, backend.ErrClosed
	}
	return l, err
}

func (s *store) acquire(ctx context.Context, r backend.Request, a *specimens.Attempt) (backend.Lease, error) {
	if !r.Wait {
		return s.try(ctx, r, a)
	}
	pause := kit.Pause{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond}
	return kit.Poll(ctx, pause, requestTimeout, func(ctx context.Context) (backend.Lease, error) { return s.try(ctx, r, a) })
}

// try asks for the key once. It returns neither a lease nor an error when the owner is spent.
func (s *store) try(ctx context.Context, r backend.Request, a *specimens.Attempt) (backend.Lease, error) {
	ttl := promises.Round(r.TTL)
	sent := time.Now()
	got, err := specimens.Ask(ctx, s.base, &s.calls, requestTimeout, func(ctx context.Context) (got row, err error) {
		err = s.use(ctx, func(c *pgx.Conn) (err error) {
			got, err = s.take(ctx, c, r, ttl)
			return err
		})
		return got, err
	}, a.Late)
	switch {
	case err != nil:
		a.Unanswered()
		return nil, specimens.Failed(ctx, err)
	case got.owner != r.Owner:
		return nil, &backend.HeldError{Holder: got.holder()}
	}
	if life := a.Grant(ctx, s.leases, r, kit.Grant{Token: uint64(got.token), Sent: sent, TTL: ttl}); life != nil {
		return life, nil
	}
	return nil, nil
}

// schema keeps a row, and with it the last token, after its release.
const schema = `CREATE TABLE IF NOT EXISTS locks (
	key bytea PRIMARY KEY, owner bytea NOT NULL, token bigint NOT NULL, expires timestamptz NOT NULL)`

// takeSQL takes a key that is free or was taken by the same owner before, in one statement, by the server's clock.
const takeSQL = `INSERT INTO locks AS l VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 ms')
	ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = l.token + 1,
		expires = clock_timestamp() + $3 * interval '1 ms'
	WHERE l.expires <= clock_timestamp() OR l.owner = excluded.owner
	RETURNING token`

func take(ctx context.Context, c *pgx.Conn, r backend.Request, ttl time.Duration) (row, error) {
	got := row{owner: r.Owner, left: ttl}
	err := c.QueryRow(ctx, takeSQL, []byte(r.Key), []byte(r.Owner), ttl.Milliseconds()).Scan(&got.token)
	if errors.Is(err, pgx.ErrNoRows) {
		return read(ctx, c, r.Key)
	}
	return got, err
}

// renewSQL prolongs what is still its owner's.
const renewSQL = `UPDATE locks SET expires = clock_timestamp() + $3 * interval '1 ms'
	WHERE key = $1 AND owner = $2 AND expires > clock_timestamp()`

func renew(ctx context.Context, c *pgx.Conn, key, owner string, ttl time.Duration) (found bool, err error) {
	tag, err := c.Exec(ctx, renewSQL, []byte(key), []byte(owner), ttl.Milliseconds())
	return tag.RowsAffected() > 0, err
}

// removeSQL frees what is still its owner's, and leaves the token.
const removeSQL = `UPDATE locks SET owner = '', expires = '-infinity'
	WHERE key = $1 AND owner = $2 AND expires > clock_timestamp()`

func remove(ctx context.Context, c *pgx.Conn, key, owner string) (found bool, err error) {
	tag, err := c.Exec(ctx, removeSQL, []byte(key), []byte(owner))
	return tag.RowsAffected() > 0, err
}

const readSQL = `SELECT owner, token, (extract(epoch FROM expires - clock_timestamp()) * 1000)::bigint
	FROM locks WHERE key = $1 AND expires > clock_timestamp()`

func read(ctx context.Context, c *pgx.Conn, key string) (row, error) {
	return scan(c.QueryRow(ctx, readSQL, []byte(key)))
}

// scan reads owner, token and the milliseconds that are left.
func scan(from pgx.Row) (row, error) {
	var owner []byte
	var token, left int64
	err := from.Scan(&owner, &token, &left)
	if errors.Is(err, pgx.ErrNoRows) {
		return row{}, nil
	}
	return row{string(owner), token, time.Duration(left) * time.Millisecond}, err
}

// RenewLease implements kit.Requests.
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	ttl = promises.Round(ttl)
	return ttl, s.change(ctx, func(c *pgx.Conn) (bool, error) { return s.renew(ctx, c, l.Key(), l.Owner(), ttl) })
}

// ReleaseLease implements kit.Requests.
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	return s.change(ctx, func(c *pgx.Conn) (bool, error) { return s.remove(ctx, c, l.Key(), l.Owner()) })
}

func (s *store) change(ctx context.Context, f func(c *pgx.Conn) (found bool, err error)) error {
	return specimens.Failed(ctx, s.use(ctx, func(c *pgx.Conn) error {
		found, err := f(c)
		if err == nil && !found {
			return backend.ErrLost
		}
		return err
	}))
}

// Inspect implements backend.Backend.
func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := s.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	var got row
	err := s.use(ctx, func(c *pgx.Conn) (err error) {
		got, err = s.read(ctx, c, key)
		return err
	})
	return got.holder(), specimens.Failed(ctx, err)
}
