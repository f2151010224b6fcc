package sqltable

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// RenewLease implements kit.Requests.
func (b *Backend) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	return ttl, b.renew(ctx, []*kit.Life{l}, []time.Duration{ttl})[0]
}

// ReleaseLease implements kit.Requests.
func (b *Backend) ReleaseLease(ctx context.Context, l *kit.Life) error {
	var changed int64
	unsure, err := b.request(ctx, func(ctx context.Context) (err error) {
		changed, err = b.exec(ctx, b.statements.release, []byte(l.Key()), []byte(l.Owner()))
		return err
	})
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
	errs := make([]error, len(lives))
	groups := make(map[time.Duration][]int) // indexes of the leases that may share a statement
	for i, ttl := range ttls {
		if b.dialect != MySQL {
			ttl = 0
		}
		groups[ttl] = append(groups[ttl], i)
	}
	for _, indexes := range groups {
		for batch := range slices.Chunk(indexes, maxBatch) {
			some, their := make([]*kit.Life, len(batch)), make([]time.Duration, len(batch))
			for i, index := range batch {
				some[i], their[i] = lives[index], ttls[index]
			}
			for i, err := range b.renew(ctx, some, their) {
				errs[batch[i]] = err
			}
		}
	}
	return ttls, errs
}

// errLocked means that a lease was not renewed because a transaction has locked its row.
var errLocked = fmt.Errorf("%w: a transaction has locked the lease's row", backend.ErrUnavailable)

// renew renews up to maxBatch leases by one statement. On MySQL they have the same TTL.
func (b *Backend) renew(ctx context.Context, lives []*kit.Life, ttls []time.Duration) []error {
	var args []any
	if b.dialect == MySQL {
		args = append(args, microseconds(ttls[0]))
	}
	size := batchSize(len(lives))
	for i := range size {
		i = min(i, len(lives)-1) // repeat the last lease to fill the statement
		args = append(args, []byte(lives[i].Key()), []byte(lives[i].Owner()))
		if b.dialect != MySQL {
			args = append(args, microseconds(ttls[i]))
		}
	}
	var errs []error
	_, err := b.request(ctx, func(ctx context.Context) error {
		sent := time.Now()
		changed, err := b.exec(ctx, renewal(b.dialect, b.options.Table, size), args...)
		if err != nil || changed == int64(len(lives)) {
			errs = make([]error, len(lives))
			return err
		}
		left, err := b.remaining(ctx, lives, size)
		errs = verdicts(lives, ttls, left, time.Since(sent))
		return err
	})
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// remaining returns the remaining time of the leases on the keys of lives.
func (b *Backend) remaining(ctx context.Context, lives []*kit.Life, size int) (map[holding]time.Duration, error) {
	args := make([]any, size)
	for i := range args {
		args[i] = []byte(lives[min(i, len(lives)-1)].Key())
	}
	s := rows(b.dialect, b.options.Table, size)
	found, err := b.db.QueryContext(ctx, s.Text, s.Args(args...)...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	left := make(map[holding]time.Duration)
	for found.Next() {
		var key, owner []byte
		var us int64
		if err := found.Scan(&key, &owner, &us); err != nil {
			return nil, err
		}
		left[holding{string(key), string(owner)}] = time.Duration(us) * time.Microsecond
	}
	return left, found.Err()
}

type holding struct{ key, owner string }

// verdicts returns an error for each lease that does not last as long as its renewal requires. since is the time since
// the renewal was sent; left is the remaining time of each lease.
func verdicts(lives []*kit.Life, ttls []time.Duration, left map[holding]time.Duration, since time.Duration) []error {
	errs := make([]error, len(lives))
	for i, l := range lives {
		switch lasts := left[holding{l.Key(), l.Owner()}]; {
		case lasts <= 0:
			errs[i] = backend.ErrLost
		case lasts < ttls[i]-since:
			errs[i] = errLocked
		}
	}
	return errs
}
