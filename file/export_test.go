package file

// StopAt arranges for f to be called at the points named in the store's code.
func StopAt(f func(point string)) { stopAt = f }

// Monotonic is the host's clock.
func Monotonic() int64 { return monotonic() }

// BucketName is the name of a key's file.
func BucketName(key string) string { return bucketName(key) }

const (
	Buckets    = buckets
	ClaimGrace = claimGrace
	LookEvery  = lookEvery
	BreakAfter = breakAfter
)
