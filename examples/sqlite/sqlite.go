// Package sqlite keeps locks in a table of an SQLite file, for the processes of one host. It is the example of
// docs/write-a-backend.md: small, complete, and as strict as the big ones.
//
// A lease ends by the host's monotonic clock, which no step of the wall clock moves and which stands still while the machine
// sleeps, for holders and waiters alike. A reboot ends all leases. The file must be on a local disk. A process that is
// stopped in the fraction of a millisecond in which it writes keeps all others from writing until it continues or is killed.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the database, in pure Go

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var guarantees = backend.Guarantees{
	MinTTL:      50 * time.Millisecond, // on a slow disk a shorter TTL could expire before the reply arrives
	MaxLate:     0,                     // an attempt compares with the clock: nothing has to run when a lease ends
	EnforcedBy:  "monotonic clock of the host",
	Fencing:     backend.FencingLoss, // see take
	FIFO:        false,
	Wake:        backend.WakePoll,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachHost,
}

// A row stays when its lease ends by itself, until the key is acquired again or a client opens the file.
const schema = `
	CREATE TABLE IF NOT EXISTS locks (
		key     BLOB PRIMARY KEY,  -- keys are any bytes
		owner   TEXT NOT NULL,
		token   INTEGER NOT NULL,
		expires INTEGER NOT NULL,  -- nanoseconds of the host's monotonic clock
		boot    TEXT NOT NULL      -- of the machine, since which that clock runs
	) WITHOUT ROWID;
	CREATE TABLE IF NOT EXISTS tokens (id INTEGER PRIMARY KEY CHECK (id = 1), last INTEGER NOT NULL);
	INSERT OR IGNORE INTO tokens VALUES (1, 0);`

// A reader reads the file, in a transaction or without one.
type reader interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// holder finds who holds key now. A free key is the zero Holder.
func (s *Store) holder(ctx context.Context, in reader, key string, now int64) (h backend.Holder, err error) {
	err = in.QueryRowContext(ctx, `SELECT owner, token, expires - ? FROM locks WHERE key = ? AND boot = ? AND expires > ?`,
		now, []byte(key), s.boot, now).Scan(&h.Owner, &h.Token, &h.TTL)
	if errors.Is(err, sql.ErrNoRows) {
		return backend.Holder{}, nil
	}
	h.Waiters = -1 // the file does not record waiters
	return h, err
}

// take grants the key to its owner unless another owner holds it, and returns the holder. If take is repeated, its owner
// already holds the key and keeps the token.
//
// One row of the file counts the tokens of all keys, so that the count outlives the leases. The count is never below the
// time, so tokens also increase across a loss of the file.
func (s *Store) take(ctx context.Context, r backend.Request, ttl time.Duration) (h backend.Holder, err error) {
	err = s.change(ctx, func(tx *sql.Tx, now int64) error {
		if h, err = s.holder(ctx, tx, r.Key, now); err != nil || h.Held() && h.Owner != r.Owner {
			return err
		}
		if !h.Held() {
			next := tx.QueryRowContext(ctx, `UPDATE tokens SET last = max(last + 1, ?) RETURNING last`, time.Now().UnixMicro())
			if err := next.Scan(&h.Token); err != nil {
				return err
			}
		}
		h.Owner = r.Owner
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO locks (key, owner, token, expires, boot) VALUES (?, ?, ?, ?, ?)`,
			[]byte(r.Key), h.Owner, h.Token, now+int64(ttl), s.boot)
		return err
	})
	return h, err
}

// renew extends owner's lease on key, and reports whether there was one.
func (s *Store) renew(ctx context.Context, key, owner string, ttl time.Duration) (found bool, err error) {
	err = s.change(ctx, func(tx *sql.Tx, now int64) error {
		h, err := s.holder(ctx, tx, key, now)
		if found = h.Held() && h.Owner == owner; !found || err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE locks SET expires = ? WHERE key = ?`, now+int64(ttl), []byte(key))
		return err
	})
	return found, err
}

// release frees the key if owner holds it, and reports whether it did.
func (s *Store) release(ctx context.Context, key, owner string) (found bool, err error) {
	result, err := s.db.ExecContext(ctx, `DELETE FROM locks WHERE key = ? AND owner = ?`, []byte(key), owner)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// change runs f as one transaction. Nobody else writes from before the clock is read until it is done.
func (s *Store) change(ctx context.Context, f func(tx *sql.Tx, now int64) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err := f(tx, monotonic()); err != nil {
		return err
	}
	return tx.Commit()
}

// A Store keeps locks in one file. It is a [backend.Backend].
type Store struct {
	db     *sql.DB
	boot   string
	leases *kit.Leases
}

// Open opens the file, and creates it if it is missing.
func Open(ctx context.Context, path string) (*Store, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	file := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)"},
		"_txlock": {"immediate"}, // a transaction that writes locks the file at once, or two could deadlock
	}.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer at a time anyway; this way ours queue in memory
	forget := `DELETE FROM locks WHERE boot <> ? OR expires <= ?`
	if _, err := db.ExecContext(ctx, schema+forget, boot, monotonic()); err != nil {
		db.Close()
		return nil, err
	}
	s := &Store{db: db, boot: boot}
	const requestTimeout = 5 * time.Second // of a release or clean-up
	s.leases = kit.NewLeases(s, requestTimeout)
	return s, nil
}

// Guarantees implements backend.Backend.
func (s *Store) Guarantees() backend.Guarantees { return guarantees }

// Close implements backend.Backend.
func (s *Store) Close() error {
	if !s.leases.Close() { // waits until nothing uses the file
		return nil
	}
	return s.db.Close()
}

// RenewLease implements kit.Requests.
func (s *Store) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	found, err := s.renew(ctx, l.Key(), l.Owner(), ttl)
	if err == nil && !found {
		err = backend.ErrLost
	}
	return ttl, err
}

// ReleaseLease implements kit.Requests.
func (s *Store) ReleaseLease(ctx context.Context, l *kit.Life) error {
	found, err := s.release(ctx, l.Key(), l.Owner())
	if err == nil && !found {
		err = backend.ErrLost
	}
	return err
}

// Acquire implements backend.Backend.
func (s *Store) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return s.leases.Acquire(ctx, r, kit.Waiter{
		Pause: kit.Pause{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond},
		Try:   func(ctx context.Context) (backend.Lease, error) { return s.try(ctx, r) },
	})
}

// try makes one attempt.
func (s *Store) try(ctx context.Context, r backend.Request) (backend.Lease, error) {
	ttl := guarantees.Round(r.TTL)
	sent := time.Now() // before the request: the deadline counts from here
	h, err := s.holder(ctx, s.db, r.Key, monotonic())
	if err == nil && (!h.Held() || h.Owner == r.Owner) { // a waiter that only reads does not block writers
		h, err = s.take(ctx, r, ttl)
	}
	switch {
	case err != nil:
		return nil, err
	case h.Owner != r.Owner:
		return nil, &backend.HeldError{Holder: h}
	}
	return s.leases.Grant(ctx, r, kit.Grant{Token: h.Token, Sent: sent, TTL: ttl})
}

// Inspect implements backend.Backend.
func (s *Store) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return kit.Call(ctx, s.leases, backend.ValidateKey(key), func(ctx context.Context) (backend.Holder, error) {
		return s.holder(ctx, s.db, key, monotonic())
	})
}
