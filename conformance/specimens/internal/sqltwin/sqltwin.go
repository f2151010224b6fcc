// Package sqltwin has the code that is common to the stores that keep a row for each key in a database.
package sqltwin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
)

// Steps are what a specimen may do in another way.
type Steps struct {
	Schema string // creates the table, for several clients at once too
	Take   func(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (Row, error)
	Renew  func(ctx context.Context, c *sql.Conn, key, owner string, ttl time.Duration) (found bool, err error)
	Remove func(ctx context.Context, c *sql.Conn, key, owner string) (found bool, err error)
	Read   func(ctx context.Context, c *sql.Conn, key string) (Row, error)

	// Wait polls by try for a request that waits; use lends a connection.
	Wait func(ctx context.Context, use Use, try Try) (backend.Lease, error)
}

// A Use lends a connection to f.
type Use func(ctx context.Context, f func(c *sql.Conn) error) error

// A Try makes one attempt to get the key.
type Try func(ctx context.Context, use Use) (backend.Lease, error)

// A Row is the holder of a key.
type Row struct {
	Owner string // empty if nobody holds the key
	Token int64
	Left  time.Duration
}

// Scan reads owner, token and the milliseconds that remain. No row means no holder.
func Scan(from *sql.Row) (Row, error) {
	var owner []byte
	var token, left int64
	err := from.Scan(&owner, &token, &left)
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, nil
	}
	return Row{string(owner), token, time.Duration(left) * time.Millisecond}, err
}

// Changed reports whether a statement has changed a row.
func Changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// failed is the error of a request as the caller that passed ctx may see it.
func failed(ctx context.Context, err error) error {
	return specimens.Failed(ctx, err, driver.ErrBadConn, sql.ErrConnDone)
}

func (r Row) holder() backend.Holder {
	if r.Owner == "" {
		return backend.Holder{}
	}
	return backend.Holder{Owner: r.Owner, Token: uint64(r.Token), TTL: r.Left, Waiters: -1}
}

type store struct {
	Steps
	db       *sql.DB
	promises backend.Guarantees
	leases   *kit.Leases
	base     context.Context // ends at Close
	cancel   context.CancelFunc
	calls    specimens.Calls
}

const requestTimeout = 5 * time.Second

// Open returns a store in db, which it closes.
func Open(ctx context.Context, db *sql.DB, promises backend.Guarantees, how Steps) (backend.Backend, error) {
	s := &store{Steps: how, db: db, promises: promises}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.leases = kit.NewLeases(s, requestTimeout)
	if err := s.use(ctx, func(c *sql.Conn) error {
		_, err := c.ExecContext(ctx, s.Schema)
		return err
	}); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *store) use(ctx context.Context, f func(c *sql.Conn) error) error {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

func (s *store) Guarantees() backend.Guarantees { return s.promises }

func (s *store) Close() error {
	s.cancel()
	if !s.leases.Close() {
		return nil
	}
	s.calls.Close()
	s.calls.Wait() // base has ended
	return s.db.Close()
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
	a := &specimens.Attempt{Abandon: func() { s.leases.Abandon(r, s.promises.Round(r.TTL)) }}
	try := func(ctx context.Context, use Use) (backend.Lease, error) { return s.try(ctx, use, r, a) }
	var l backend.Lease
	var err error
	if r.Wait {
		l, err = s.Wait(ctx, s.use, try)
	} else {
		l, err = try(ctx, s.use)
	}
	if l, err = a.End(l, err); err != nil && s.base.Err() != nil {
		return nil, backend.ErrClosed
	}
	return l, err
}

// Poll waits by attempts, each of which is a transaction of its own.
func Poll(ctx context.Context, use Use, try Try) (backend.Lease, error) {
	pause := kit.Pause{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond}
	return specimens.Poll(ctx, pause, requestTimeout, func(ctx context.Context) (backend.Lease, error) {
		return try(ctx, use)
	})
}

// try requests the key once. It returns neither a lease nor an error if the owner must not be used again.
func (s *store) try(ctx context.Context, use Use, r backend.Request, a *specimens.Attempt) (backend.Lease, error) {
	ttl := s.promises.Round(r.TTL)
	sent := time.Now()
	request := func(ctx context.Context) (got Row, err error) {
		err = use(ctx, func(c *sql.Conn) (err error) {
			got, err = s.Take(ctx, c, r, ttl)
			return err
		})
		return got, err
	}
	got, err := specimens.Ask(ctx, s.base, &s.calls, requestTimeout, request, a.Late)
	switch {
	case err != nil:
		a.Unanswered()
		return nil, failed(ctx, err)
	case got.Owner != r.Owner:
		return nil, &backend.HeldError{Holder: got.holder()}
	}
	grant := kit.Grant{Token: uint64(got.Token), Sent: sent, TTL: ttl}
	if life := a.Grant(ctx, s.leases, r, grant); life != nil {
		return life, nil
	}
	return nil, nil
}

// RenewLease implements kit.Requests.
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	ttl = s.promises.Round(ttl)
	return ttl, s.change(ctx, func(c *sql.Conn) (bool, error) { return s.Renew(ctx, c, l.Key(), l.Owner(), ttl) })
}

// ReleaseLease implements kit.Requests.
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	return s.change(ctx, func(c *sql.Conn) (bool, error) { return s.Remove(ctx, c, l.Key(), l.Owner()) })
}

func (s *store) change(ctx context.Context, f func(c *sql.Conn) (found bool, err error)) error {
	return failed(ctx, s.use(ctx, func(c *sql.Conn) error {
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
	var got Row
	err := s.use(ctx, func(c *sql.Conn) (err error) {
		got, err = s.Read(ctx, c, key)
		return err
	})
	return got.holder(), failed(ctx, err)
}
