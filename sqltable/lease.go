package sqltable

import (
	"context"
	"fmt"
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
	changed, unsure, err := b.change(ctx, b.statements.release, []byte(l.Key()), []byte(l.Owner()))
	switch {
	case err != nil || changed > 0:
		return err
	case unsure: // the first try may have released the lease, so that a repetition found none
		return l.LostAfterDeadline()
	}
	return backend.ErrLost
}

// RenewBatch implements [backend.BatchRenewer]. One statement renews up to 1024 leases; on MySQL, all of them have the
// same TTL.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.renewAll)
}

func (b *Backend) renewAll(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
	granted, errs := slices.Clone(ttls), make([]error, len(lives))
	groups := make(map[time.Duration][]int) // indexes of the leases that may share a statement
	for i, ttl := range ttls {
		if b.dialect != MySQL {
			ttl = 0
		}
		groups[ttl] = append(groups[ttl], i)
	}
	for _, indexes := range groups {
		for batch := range slices.Chunk(indexes, maxBatch) {
			b.renew(ctx, lives, granted, batch, errs)
		}
	}
	return granted, errs
}

// errLocked means that a lease was not renewed because a transaction has locked its row.
var errLocked = fmt.Errorf("%w: a transaction has locked the lease's row", backend.ErrUnavailable)

// renew renews the leases with the indexes in batch, at most maxBatch, by one statement. It sets their errors, and what
// is certain of their TTLs. On MySQL they have the same TTL.
func (b *Backend) renew(
	ctx context.Context, lives []*kit.Life, ttls []time.Duration, batch []int, errs []error,
) {
	power := bits.Len(uint(len(batch) - 1)) // of two, so that there are few statements, and drivers can cache them
	var args, keys []any
	for i := range 1 << power {
		n := batch[min(i, len(batch)-1)] // repeat the last lease to fill the statement
		if i == 0 || b.dialect != MySQL {
			args = append(args, ttls[n].Microseconds())
		}
		var key any = []byte(lives[n].Key())
		args, keys = append(args, key, []byte(lives[n].Owner())), append(keys, key)
	}
	var rows map[string]backend.Holder // nil if all leases were renewed
	var sent, read time.Time           // when the renewal was sent, and the query for rows
	unsure, err := b.request(ctx, func(ctx context.Context) error {
		rows, sent = nil, time.Now()
		changed, err := b.exec(ctx, b.statements.renew[power](), args...)
		if err == nil && changed != int64(len(batch)) {
			read = time.Now()
			rows, err = b.rows(ctx, b.statements.rows[power](), keys...)
		}
		return err
	})
	since := time.Since(sent)
	for _, n := range batch {
		if unsure {
			lives[n].NoteUnanswered(ttls[n])
		}
		switch {
		case err != nil:
			errs[n] = err
		case rows != nil:
			row := rows[lives[n].Key()]
			errs[n] = renewalError(row, lives[n].Owner(), ttls[n]-since)
			// If the reply took long, the row of a lease that was not renewed may seem to last long enough. The row lasted
			// for row.TTL when the database read it, so at least for as long from when the query was sent.
			if certain := read.Sub(sent) + row.TTL; certain < ttls[n]-backend.Margin(ttls[n]) {
				ttls[n] = certain
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
