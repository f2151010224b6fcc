package sqltable

import (
	"context"
	"time"
)

const (
	// purgeAge is for how many microseconds a key must have been free before its row is deleted. Later tokens of the key
	// are still higher, because a token is at least the database's time, unless the clock has stepped back by a day.
	purgeAge = int64(24 * time.Hour / time.Microsecond)
	// purgePause is the time between purges by one Backend.
	purgePause = time.Hour
	// purgeMost is how many rows a purge deletes at most. If there were as many, the next Acquire begins a purge.
	purgeMost = 1000
)

// purgeIfDue begins a purge in the background if purgePause has passed since the last one, or more rows may be old.
func (b *Backend) purgeIfDue() {
	next, now := b.nextPurge.Load(), time.Now().UnixNano()
	if now >= next && b.nextPurge.CompareAndSwap(next, now+int64(purgePause)) {
		b.leases.Go(b.purge)
	}
}

// purge deletes up to purgeMost rows of keys that have been free for purgeAge. It deletes them one by one: one
// statement for all would also lock the rows of live leases, unless the table has an index on expires. Such an index
// would slow down every renewal. After an error, the remaining rows stay until the next purge.
func (b *Backend) purge(ctx context.Context) {
	old, _ := b.rows(ctx, b.statements.ended, purgeAge)
	var deleted int64
	for key := range old {
		rows, _, err := b.change(ctx, b.statements.purge, purgeAge, []byte(key))
		if err != nil {
			return
		}
		deleted += rows
	}
	if len(old) == purgeMost && deleted > 0 { // a trigger or a policy may keep all rows
		b.nextPurge.Store(0)
	}
}
