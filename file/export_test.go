package file

import (
	"context"
	"errors"
)

// StopAt arranges for f to be called at the points named in the store's code.
func StopAt(f func(point string)) { stopAt = f }

// Monotonic is the host's clock.
func Monotonic() int64 {
	clock, err := hostClock()
	if err != nil {
		panic(err)
	}
	return clock()
}

// BucketName is the name of a key's file.
func BucketName(key string) string { return bucketName(key) }

// Evict removes what the store knows of a key.
func Evict(ctx context.Context, dir, key string) error {
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	defer s.spare.close()
	err = s.update(ctx, key, false, func(r *record, _ int64) (bool, error) {
		*r = record{}
		return true, nil
	})
	if errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

const (
	Buckets    = buckets
	ClaimGrace = claimGrace
	PollEvery  = pollEvery
	BreakAfter = breakAfter
)
