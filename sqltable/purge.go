package sqltable

import (
	"context"
	"time"
)

const (
	// purgeAge is how long a key must have been free before its row is deleted. Later tokens of the key are still higher,
	// because a token is at least the database's time, unless the clock has stepped back by a day.
	purgeAge = 24 * time.Hour
	// purgePause is the time between purges by one Backend.
	purgePause = time.Hour
)

// purgeSometimes deletes old rows in the background, at most once in purgePause.
func (b *Backend) purgeSometimes() {
	next, now := b.nextPurge.Load(), int64(time.Since(b.opened))
	if now < next || !b.nextPurge.CompareAndSwap(next, now+int64(purgePause)) {
		return
	}
	b.leases.Go(func(ctx context.Context) {
		if _, err := b.purge(ctx, purgeAge); err != nil {
			b.nextPurge.Store(0)
		}
	})
}

// purge deletes up to a thousand rows of keys that have been free for age. It deletes them one by one: one statement
// for all would also lock the rows of live leases, unless the table has an index on expires. Such an index would slow
// down every renewal.
func (b *Backend) purge(ctx context.Context, age time.Duration) (deleted int64, err error) {
	var keys []string
	_, err = b.request(ctx, func(ctx context.Context) (err error) {
		keys, err = b.keys(ctx, b.statements.ended, microseconds(age))
		return err
	})
	for _, key := range keys {
		if err != nil {
			return deleted, err
		}
		_, err = b.request(ctx, func(ctx context.Context) error {
			n, err := b.exec(ctx, b.statements.purge, microseconds(age), []byte(key))
			deleted += n
			return err
		})
	}
	return deleted, err
}
