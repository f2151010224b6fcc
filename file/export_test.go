package file

import "context"

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

const (
	Buckets    = buckets
	ClaimGrace = claimGrace
	PollEvery  = pollEvery
	BreakAfter = breakAfter
)
