package sqltable

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// RenewLease implements kit.Requests.
func (b *Backend) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	granted, errs := b.renewAll(ctx, []*kit.Life{l}, []time.Duration{ttl})
	return granted[0], errs[0]
}

// ReleaseLease implements kit.Requests.
func (b *Backend) ReleaseLease(ctx context.Context, l *kit.Life) error {
	rows, o, err := b.change(ctx, b.statements.release, []byte(l.Key()), []byte(l.Owner()))
	switch {
	case err != nil || rows > 0:
		return err
	case o.unsure: // the first try may have released the lease, so that a repetition found none
		return l.LostAfterDeadline()
	}
	return backend.ErrLost
}

// RenewBatch implements [backend.BatchRenewer]. One statement renews up to 512 leases that have the same TTL.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.renewAll)
}

func (b *Backend) renewAll(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
	granted, errs := slices.Clone(ttls), make([]error, len(lives))
	groups := make(map[time.Duration][]int) // indexes of the leases with the same TTL
	for i, ttl := range ttls {
		groups[ttl] = append(groups[ttl], i)
	}
	for _, ttl := range slices.Sorted(maps.Keys(groups)) { // the shortest first, because it has the least time
		for batch := range slices.Chunk(groups[ttl], maxBatch) {
			b.renew(ctx, lives, batch, ttl, granted, errs)
		}
	}
	return granted, errs
}

// errLocked means that a lease was not renewed because a transaction has locked its row.
var errLocked = fmt.Errorf("%w: a transaction has locked the lease's row", backend.ErrUnavailable)

// renew renews the leases with the indexes in batch, at most maxBatch, to ttl by one statement. It sets their errors,
// and the granted TTL of a lease for which less than ttl is certain.
func (b *Backend) renew(
	ctx context.Context, lives []*kit.Life, batch []int, ttl time.Duration, granted []time.Duration, errs []error,
) {
	power := bits.Len(uint(len(batch) - 1)) // of two, so that there are few statements, and drivers can cache them
	if len(lives) > 1 {
		power = max(power, 1) // the statement for one lease would wait for a locked row, and delay the other leases
	}
	n := 1 << power
	args := make([]any, 1+2*n) // the TTL, the keys and the owners
	args[0] = ttl.Microseconds()
	for i := range n {
		l := lives[batch[min(i, len(batch)-1)]] // repeat the last lease to fill the statement
		args[1+i], args[1+n+i] = []byte(l.Key()), []byte(l.Owner())
	}
	renewed, o, err := b.change(ctx, b.statements.renew[power](), args...)
	read := time.Now()
	var rows map[string]backend.Holder // nil if all leases were renewed
	if err == nil && renewed != int64(len(batch)) {
		rows, err = b.rows(ctx, b.statements.rows[power](), args[1:1+n]...)
	}
	for _, i := range batch {
		l := lives[i]
		if o.unsure {
			l.NoteUnanswered(ttl)
		}
		switch {
		case err != nil:
			errs[i] = err
		case rows != nil:
			row := rows[l.Key()]
			errs[i] = renewalError(row, l.Owner(), ttl-time.Since(o.sent))
			// If the reply took long, the row of a lease that was not renewed may seem to last long enough. The row lasted
			// for row.TTL when the database read it, so at least for as long from when the query was sent.
			if certain := read.Sub(o.sent) + row.TTL; certain < ttl-backend.Margin(ttl) {
				granted[i] = certain
			}
		}
	}
}

// clockStep is the resolution of SQLite's clock. Between a renewal and the next statement, that clock may move by a
// step although no time has passed. It is less than the margin of a deadline.
const clockStep = time.Millisecond

// renewalError returns an error unless owner has the lease of row, and the lease lasts at least ttl, as a renewal
// requires.
func renewalError(row backend.Holder, owner string, ttl time.Duration) error {
	switch {
	case row.Owner != owner || row.TTL <= 0:
		return backend.ErrLost
	case row.TTL < ttl-clockStep:
		return errLocked
	}
	return nil
}

// Resume implements [backend.Resumer]. It needs two statements: one renews the lease, and one reads the token.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(b.Guarantees()), func(ctx context.Context) (backend.Lease, error) {
		ttl := b.Guarantees().Round(r.TTL)
		_, o, err := b.change(ctx, b.statements.renew[0](), ttl.Microseconds(), []byte(r.Key), []byte(r.Owner))
		if err != nil {
			return nil, err
		}
		h, err := b.holder(ctx, r.Key)
		if err = cmp.Or(err, renewalError(h, r.Owner, ttl-time.Since(o.sent))); err != nil {
			return nil, err
		}
		return b.leases.Resume(r, kit.Grant{Token: h.Token, Sent: o.sent, TTL: ttl, Unsure: o.unsure})
	})
}
