package file

// StopAt arranges for f to be called at the points named in the store's code.
func StopAt(f func(point string)) { stopAt = f }

// Monotonic is the host's clock.
func Monotonic() int64 { return monotonic() }

// FileName is the name of a key's file.
func FileName(key string) string { return fileName(key) }

// Search removes what dead processes have left.
func (b *Backend) Search() { b.sweep.search() }

const (
	ClaimGrace = claimGrace
	LookEvery  = lookEvery
	BreakAfter = breakAfter
)
