package conformance_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// This file is the example of docs/write-a-backend.md: a store on a table of rows (key, owner, token, expires), as a
// database would keep it. The table's methods stand for statements; each is atomic, and the table's clock is the only
// one that counts.

type table struct {
	mu   sync.Mutex
	rows map[string]row // a row stays when its lease ends, to keep its token
}

type row struct {
	owner   string // empty: free
	token   uint64
	expires time.Time
}

// take gives the key to owner unless another one holds it, and returns the row as it is then. A repeated statement finds
// that the owner holds the key already, and changes nothing but the expiry.
func (t *table) take(key, owner string, ttl time.Duration) (r row, left time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	r = t.rows[key]
	free := r.owner == "" || !now.Before(r.expires)
	if !free && r.owner != owner {
		return r, r.expires.Sub(now), false
	}
	if free {
		r = row{owner: owner, token: r.token + 1}
	}
	r.expires = now.Add(ttl)
	t.rows[key] = r
	return r, ttl, true
}

// change runs f on the row of key if owner holds it, and reports whether it does.
func (t *table) change(key, owner string, f func(r *row, now time.Time)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	r := t.rows[key]
	if r.owner != owner || !now.Before(r.expires) {
		return false
	}
	f(&r, now)
	t.rows[key] = r
	return true
}

func (t *table) read(key string) (r row, left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r = t.rows[key]
	return r, time.Until(r.expires)
}

// snippet: guarantees
var tableGuarantees = backend.Guarantees{
	MinTTL:      20 * time.Millisecond, // shorter ones would be over before the answer is there
	Granularity: 10 * time.Millisecond, // what the column resolves
	MaxLate:     0,                     // an attempt compares with the clock: nothing runs late
	EnforcedBy:  "clock of the table",
	Fencing:     backend.FencingProcess,
	FIFO:        false,
	Wake:        backend.WakePoll,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachProcess,
}

// end

// snippet: store
type tableStore struct {
	table  *table
	leases *backend.Leases
}

func openTable(t *table) *tableStore {
	s := &tableStore{table: t}
	const requestTimeout = time.Second // of a release or clean-up
	s.leases = backend.NewLeases(s, requestTimeout)
	return s
}

func (s *tableStore) Guarantees() backend.Guarantees { return tableGuarantees }

func (s *tableStore) Close() error {
	s.leases.Close()
	return nil // a store that opened its client closes it here, after its leases
}

// end

// snippet: acquire
func (s *tableStore) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if !r.Wait {
		return s.try(ctx, r)
	}
	pause := backend.Pause{Min: time.Millisecond, Max: 20 * time.Millisecond}
	const patience = 10 * time.Second // with a store that does not answer
	return backend.Poll(ctx, pause, patience, func(ctx context.Context) (backend.Lease, error) { return s.try(ctx, r) })
}

func (s *tableStore) try(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	ttl := tableGuarantees.Round(r.TTL)
	sent := time.Now() // before the request: the deadline counts from here
	row, left, ok := s.table.take(r.Key, r.Owner, ttl)
	// Over a network there would be an error here: s.leases.Abandon(r.Key, r.Owner, ttl), and return it.
	if !ok {
		return nil, &backend.HeldError{Holder: backend.Holder{Owner: row.owner, Token: row.token, TTL: left, Waiters: -1}}
	}
	life, err := s.leases.Grant(ctx, r, backend.Grant{Token: row.token, Sent: sent, TTL: ttl})
	if err != nil {
		return nil, err // and not life: an interface that holds a nil pointer is not nil
	}
	return life, nil
}

func (s *tableStore) ready(ctx context.Context) error {
	if s.leases.Closed() {
		return backend.ErrClosed
	}
	return backend.ContextError(ctx, nil)
}

// end

// snippet: requests
func (s *tableStore) RenewLease(_ context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	ttl = tableGuarantees.Round(ttl)
	if !s.table.change(l.Key(), l.Owner(), func(r *row, now time.Time) { r.expires = now.Add(ttl) }) {
		return 0, backend.ErrLost
	}
	return ttl, nil
}

func (s *tableStore) ReleaseLease(_ context.Context, l *backend.Life) error {
	if !s.table.change(l.Key(), l.Owner(), func(r *row, _ time.Time) { r.owner = "" }) {
		return backend.ErrLost
	}
	return nil
}

// end

// snippet: inspect
func (s *tableStore) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := s.ready(ctx); err != nil {
		return backend.Holder{}, err
	}
	row, left := s.table.read(key)
	if row.owner == "" || left <= 0 {
		return backend.Holder{}, nil // a free key is the zero Holder
	}
	return backend.Holder{Owner: row.owner, Token: row.token, TTL: left, Waiters: -1}, nil
}

// end

// snippet: test
func TestTableConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		tab := &table{rows: make(map[string]row)}
		return conformance.Harness{
			Open: func(context.Context) (backend.Backend, error) { return openTable(tab), nil },
			Evict: func(_ context.Context, key string) error {
				tab.mu.Lock()
				defer tab.mu.Unlock()
				tab.rows[key] = row{token: tab.rows[key].token}
				return nil
			},
		}
	})
}

// end
