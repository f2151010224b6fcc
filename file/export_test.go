package file

import (
	"context"

	"github.com/anylock/lock/backend"
)

// StopAt makes the store call f at the named points of its code.
func StopAt(f func(point string)) { stopAt = f }

// Monotonic returns the time of the host's clock in nanoseconds.
func Monotonic() int64 {
	clock, err := hostClock()
	if err != nil {
		panic(err)
	}
	return clock()
}

// BucketName returns the name of the file that contains a key.
func BucketName(key string) string { return bucketName(key) }

// Evict removes the record of a key.
func Evict(ctx context.Context, dir, key string) error {
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	defer s.spare.close()
	return s.update(ctx, key, false, func(r *record, _ int64) (bool, error) {
		*r = record{}
		return true, nil
	})
}

// Enqueue puts a waiter that never polls into the queue of a held key. turn receives when the waiter is notified.
func Enqueue(ctx context.Context, b *Backend, key string, shared bool) (turn <-chan struct{}, err error) {
	inbox, err := b.inbox.address()
	if err != nil {
		return nil, err
	}
	t := b.inbox.register()
	err = b.store.update(ctx, key, false, func(r *record, _ int64) (bool, error) {
		r.queue = append(r.queue, queued{backend.NewOwner(), inbox, t.number, shared})
		return true, nil
	})
	return t.turn, err
}

const (
	Buckets    = buckets
	ClaimGrace = claimGrace
	PollEvery  = pollEvery
	BreakAfter = breakAfter
)
