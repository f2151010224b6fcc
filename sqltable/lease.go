package sqltable

import (
	"context"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// RenewLease implements kit.Requests.
func (b *Backend) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	return ttl, b.renew(ctx, []*kit.Life{l}, ttl)[0]
}

// ReleaseLease implements kit.Requests.
func (b *Backend) ReleaseLease(ctx context.Context, l *kit.Life) error {
	var changed int64
	unsure, err := b.request(ctx, func(ctx context.Context) (err error) {
		changed, err = b.exec(ctx, b.statements.release, []byte(l.Key()), []byte(l.Owner()))
		return err
	})
	// A repeated request may find what the first one has done. After the deadline, the lease had probably expired before.
	if err == nil && changed == 0 && (!unsure || !time.Now().Before(l.Deadline())) {
		return backend.ErrLost
	}
	return err
}

// RenewBatch implements [backend.BatchRenewer]. Leases with the same TTL share a statement, up to 1024 of them.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.renewAll)
}

func (b *Backend) renewAll(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
	errs := make([]error, len(lives))
	same := make(map[time.Duration][]int) // indexes by TTL
	for i, ttl := range ttls {
		same[ttl] = append(same[ttl], i)
	}
	for ttl, indexes := range same {
		for len(indexes) > 0 {
			n := min(len(indexes), maxBatch)
			batch := make([]*kit.Life, n)
			for i, index := range indexes[:n] {
				batch[i] = lives[index]
			}
			for i, err := range b.renew(ctx, batch, ttl) {
				errs[indexes[i]] = err
			}
			indexes = indexes[n:]
		}
	}
	return ttls, errs
}

// errLocked means that a lease was not renewed because a transaction has locked its row.
var errLocked = fmt.Errorf("%w: a transaction has locked the lease's row", backend.ErrUnavailable)

// renew renews up to maxBatch leases by one statement.
func (b *Backend) renew(ctx context.Context, lives []*kit.Life, ttl time.Duration) []error {
	args := []any{microseconds(ttl)}
	size := batchSize(len(lives))
	for i := range size {
		l := lives[min(i, len(lives)-1)] // the last one fills the statement up
		args = append(args, []byte(l.Key()), []byte(l.Owner()))
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
		errs = verdicts(lives, left, ttl-time.Since(sent))
		return err
	})
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// remaining returns how long the leases on the keys of lives last.
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

// verdicts says for each lease whether it lasts as long as it must after its renewal.
func verdicts(lives []*kit.Life, left map[holding]time.Duration, least time.Duration) []error {
	errs := make([]error, len(lives))
	for i, l := range lives {
		switch lasts := left[holding{l.Key(), l.Owner()}]; {
		case lasts <= 0:
			errs[i] = backend.ErrLost
		case lasts < least:
			errs[i] = errLocked
		}
	}
	return errs
}
