package sqltable

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// An attempt is one call of Acquire.
type attempt struct {
	b         *Backend
	request   backend.Request
	ttl       time.Duration
	readFirst bool // the next try reads before it writes
	unsure    bool // a statement got no reply, and may still be executed
}

// pollPause is the pause between tries. Half of the waiters notice a release within 50 ms.
var pollPause = kit.Pause{Min: 5 * time.Millisecond, Max: 150 * time.Millisecond}

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	a := &attempt{b: b, request: r, ttl: b.Guarantees().Round(r.TTL), readFirst: b.dialect == SQLite}
	return b.leases.Acquire(ctx, r, kit.Waiter{
		Pause: pollPause,
		Try:   a.try,
		CleanUp: func() {
			if a.unsure {
				b.leases.Abandon(r, a.ttl)
			}
		},
	})
}

// try tries once to acquire the key. From the second try on, it first reads the row: while the key is held, a waiter
// writes nothing and locks nothing.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	b, r := a.b, a.request
	if a.readFirst {
		switch h, err := b.holder(ctx, r.Key); {
		case err != nil:
			return nil, err
		case h.Held() && h.Owner != r.Owner:
			return nil, &backend.HeldError{Holder: h}
		}
	}
	a.readFirst = true
	var token uint64
	o, err := b.request(ctx, func(ctx context.Context) (err error) {
		token, err = b.grant(ctx, r, a.ttl)
		return err
	})
	a.unsure = a.unsure || o.unsure
	if err == nil && token == 0 {
		h, _ := b.holder(ctx, r.Key) // nobody if the holder cannot be read, or has released the key by now
		if h.Owner != r.Owner {
			return nil, &backend.HeldError{Holder: h}
		}
		token = h.Token // of a repeated grant that changed nothing
	}
	switch {
	case err == nil:
		b.purgeIfDue()
		return b.leases.Grant(ctx, r, kit.Grant{Token: token, Sent: o.sent, TTL: a.ttl, Unsure: a.unsure})
	case (o.unsure || o.class == conflict) && !kit.Ended(ctx):
		// The last holder's transaction may have locked the row (package fence), so that the statement had to wait.
		if h, ok := b.lastOwner(ctx, r.Key); ok && h.Owner != r.Owner {
			return nil, &backend.HeldError{Holder: h}
		}
	}
	return nil, err
}

// lastOwner returns the holder of key or, if the lease has ended but was not released, its owner, unless the row is
// certain not to be locked.
func (b *Backend) lastOwner(ctx context.Context, key string) (h backend.Holder, ok bool) {
	const share = 4 // the time limit is Options.Timeout/share, on top of the previous request's
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout/share)
	defer cancel()
	rows, err := b.rows(ctx, b.statements.rows[0](), []byte(key))
	h = rows[key]
	var unlocked map[string]backend.Holder
	if err == nil && h.TTL <= 0 && b.dialect != SQLite {
		unlocked, err = b.rows(ctx, b.statements.unlocked, []byte(key))
	}
	h.TTL = max(h.TTL, 0)
	return h, err == nil && h.Held() && len(unlocked) == 0
}

// grant grants the key and returns its token, or 0 if another owner holds the key.
func (b *Backend) grant(ctx context.Context, r backend.Request, ttl time.Duration) (token uint64, err error) {
	args := []any{[]byte(r.Key), []byte(r.Owner), ttl.Microseconds()}
	s := b.statements.grant
	if b.dialect != MySQL {
		err := b.db.QueryRowContext(ctx, s.Text, args...).Scan(&token)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		return token, err
	}
	_, id, err := b.exec(ctx, s, args...)
	if err != nil || id != 0 {
		return uint64(id), err
	}
	if added, _, err := b.exec(ctx, b.statements.add, args[0]); err != nil || added == 0 { // the key is held
		return 0, err
	}
	_, id, err = b.exec(ctx, s, args...)
	return uint64(id), err
}
