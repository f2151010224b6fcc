// Package postgres has wrong ways to lock with Postgres' advisory locks, and the correct store from which they
// differ.
package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/conformance/specimens/internal/pgpool"
)

// Open opens the right store: an advisory lock on a connection of its own, which the server closes when it has been
// idle for the lease's TTL (idle_session_timeout, Postgres 14). addrs is the address of one server.
func Open(_ context.Context, addrs ...string) (backend.Backend, error) { return open(right(), addrs) }

// steps are what a specimen may do in another way.
type steps struct {
	number func(key string) int64 // by which the server knows a key
	take   func(ctx context.Context, s *store, r backend.Request, ttl time.Duration) (*hold, error)
	renew  func(ctx context.Context, s *store, h *hold, ttl time.Duration) error
	unlock func(ctx context.Context, s *store, h *hold) (unlocked bool, err error)
	lost   func(h *hold, ttl time.Duration) // the lease has ended without being released
	wrap   func(s *store, l *kit.Life) backend.Lease
}

func right() steps {
	return steps{number: number, take: takeBy(trySQL), renew: renew, unlock: unlock, lost: leave, wrap: plain}
}

type store struct {
	steps
	pool   *pgpool.Pool
	leases *kit.Leases
	base   context.Context // ends at Close
	cancel context.CancelFunc
}

// A hold is the session that holds a lock.
type hold struct {
	label string // see label
	id    int64
	token uint64

	mu   sync.Mutex
	conn *pgx.Conn // nil for specimens that keep none

	callers context.Context // of Release, for a specimen that uses it
}

const (
	requestTimeout = 5 * time.Second
	poolSize       = 8 // of sessions that try; those that hold a lock leave the pool
)

var promises = backend.Guarantees{
	MinTTL:      20 * time.Millisecond,
	Granularity: time.Millisecond,
	MaxTTL:      20 * 24 * time.Hour, // the server counts milliseconds in 32 bits
	MaxLate:     2 * time.Second,     // the session's process must get a processor for its end
	EarlyLoss:   "restart of the server, end of the connection",
	EnforcedBy:  "server clock",
	Fencing:     backend.FencingRestart,
	Wake:        backend.WakePoll,
	Consistency: backend.BestEffort,
	Reach:       backend.ReachNetwork,
}

func open(how steps, addrs []string) (backend.Backend, error) {
	p, err := pgpool.New(addrs[0], poolSize)
	if err != nil {
		return nil, err
	}
	s := &store{steps: how, pool: p}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.leases = kit.NewLeases(s, requestTimeout)
	return s, nil
}

func (s *store) Guarantees() backend.Guarantees { return promises }

func (s *store) Close() error {
	s.cancel()
	if s.leases.Close() {
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
	if err := validateTTL(r.TTL); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.base, cancel)()
	lease, err := s.acquire(ctx, r)
	if err != nil && s.base.Err() != nil {
		return nil, backend.ErrClosed
	}
	return lease, err
}

func validateTTL(ttl time.Duration) error {
	if ttl > promises.MaxTTL {
		return fmt.Errorf("%w: ttl %v is longer than %v", backend.ErrInvalid, ttl, promises.MaxTTL)
	}
	return nil
}

func (s *store) acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if !r.Wait {
		return s.try(ctx, r)
	}
	pause := kit.Pause{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond}
	return specimens.Poll(ctx, pause, requestTimeout,
		func(ctx context.Context) (backend.Lease, error) { return s.try(ctx, r) })
}

func (s *store) try(ctx context.Context, r backend.Request) (backend.Lease, error) {
	ttl := promises.Round(r.TTL)
	sent := time.Now()
	h, err := s.take(ctx, s, r, ttl)
	switch {
	case ctx.Err() != nil && h == nil:
		return nil, kit.ContextError(ctx, err)
	case err != nil:
		return nil, err
	}
	life, err := s.leases.Grant(ctx, r, kit.Grant{Token: h.token, Sent: sent, TTL: ttl, Data: h})
	if err != nil {
		return nil, err
	}
	life.OnLost(func() { s.lost(h, ttl) })
	return s.wrap(s, life), nil
}

// plain is the lease as package backend keeps it.
func plain(_ *store, l *kit.Life) backend.Lease { return l }

// number is 64 bits of a good hash.
func number(key string) int64 {
	sum := sha256.Sum256([]byte(key))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// label is a comment before a statement, by which Inspect finds the owner in pg_stat_activity.
func label(owner string) string { return "/*" + hex.EncodeToString([]byte(owner)) + "*/ " }

// trySQL locks, starts the session's timer, and takes a transaction's number after the lock for the token: one round
// trip.
const trySQL = `SELECT CASE WHEN pg_try_advisory_lock($1)
	THEN set_config('idle_session_timeout', $2, false) || ' ' || pg_current_xact_id()::text END`

// takeBy returns the step that tries once, with an SQL statement.
func takeBy(sql string) func(context.Context, *store, backend.Request, time.Duration) (*hold, error) {
	return func(ctx context.Context, s *store, r backend.Request, ttl time.Duration) (*hold, error) {
		return take(ctx, s, r, ttl, sql)
	}
}

// take tries once. A session that got the lock leaves the pool; one whose answer is unknown is closed, and what it may
// hold goes with it.
func take(ctx context.Context, s *store, r backend.Request, ttl time.Duration, sql string) (*hold, error) {
	c, err := s.pool.Borrow(ctx)
	if err != nil {
		return nil, err
	}
	h := &hold{label: label(r.Owner), id: s.number(r.Key), conn: c}
	var got *string
	err = c.QueryRow(ctx, h.label+sql, h.id, millis(ttl)).Scan(&got)
	if err == nil && got == nil {
		s.pool.GiveBack(c)
		return nil, backend.ErrHeld
	}
	s.pool.TakeOut()
	if err != nil {
		pgpool.HangUp(c)
		return nil, err
	}
	h.token = tokenOf(*got)
	return h, nil
}

// tokenOf is the last word of an answer.
func tokenOf(text string) uint64 {
	n, _ := strconv.ParseUint(text[strings.LastIndexByte(text, ' ')+1:], 10, 64)
	return n
}

func millis(ttl time.Duration) string { return strconv.FormatInt(ttl.Milliseconds(), 10) }

// RenewLease implements kit.Requests.
func (s *store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	if err := validateTTL(ttl); err != nil {
		return 0, err
	}
	ttl = promises.Round(ttl)
	h := l.Data.(*hold)
	h.mu.Lock()
	defer h.mu.Unlock()
	return ttl, s.renew(ctx, s, h, ttl)
}

// renew sets the session's timer, which starts anew with every statement. Without the session there is no lock.
func renew(ctx context.Context, _ *store, h *hold, ttl time.Duration) error {
	if h.conn.IsClosed() {
		return backend.ErrLost
	}
	var set string
	err := h.conn.QueryRow(ctx, h.label+`SELECT set_config('idle_session_timeout', $1, false)`, millis(ttl)).Scan(&set)
	if h.conn.IsClosed() {
		return fmt.Errorf("%w: %w", backend.ErrLost, err)
	}
	return err
}

// ReleaseLease implements kit.Requests.
func (s *store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	h, _ := l.Data.(*hold)
	if h == nil {
		return backend.ErrLost // take has closed the session of a request that failed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch unlocked, err := s.unlock(ctx, s, h); {
	case err != nil:
		return err
	case !unlocked:
		return backend.ErrLost
	}
	return nil
}

// unlock unlocks in the session that locked, and ends it. A session that does not answer is over in a moment, or by its
// timer.
func unlock(ctx context.Context, _ *store, h *hold) (unlocked bool, err error) {
	if h.conn.IsClosed() {
		return false, nil
	}
	err = h.conn.QueryRow(ctx, `SELECT pg_advisory_unlock($1)`, h.id).Scan(&unlocked)
	pgpool.HangUp(h.conn)
	if last := (*pgconn.PgError)(nil); errors.As(err, &last) && last.SeverityUnlocalized == "FATAL" {
		return false, nil // the server had ended the session
	}
	return unlocked, err
}

// leave keeps the connection for as long as the server does: to close it would free the key of a client that was closed
// while its holder may still be at work.
func leave(h *hold, ttl time.Duration) {
	time.AfterFunc(ttl, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		pgpool.HangUp(h.conn)
	})
}

const inspectSQL = `SELECT a.query FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
	AND (l.classid::bigint << 32 | l.objid::bigint) = $1`

// Inspect finds the session that holds the lock, and the owner in its last statement.
func (s *store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := s.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	c, err := s.pool.Borrow(ctx)
	if err != nil {
		return backend.Holder{}, err
	}
	defer s.pool.GiveBack(c)
	var query string
	err = c.QueryRow(ctx, inspectSQL, s.number(key)).Scan(&query)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return backend.Holder{}, nil
	case err != nil:
		return backend.Holder{}, err
	}
	comment, _, _ := strings.Cut(strings.TrimPrefix(query, "/*"), "*/")
	owner, err := hex.DecodeString(comment)
	if err != nil {
		owner = []byte("session of another program")
	}
	return backend.Holder{Owner: string(owner), Waiters: -1}, nil
}
