package conformance_test

import "github.com/anylock/lock/backend/kit"

// joinsReaders is a bug of renewals that are made at once. It is one of sharedMutants.
const joinsReaders = "renewals of a client's readers of one key at once are one"

// joins reports whether the renewal of l joins another one of the same key, as the bug joinsReaders. If not, the caller
// calls end after the renewal.
func (c *client) joins(l *kit.Life) (another bool, end func()) {
	if !l.Shared() || !c.is(joinsReaders) {
		return false, func() {}
	}
	_, another = c.narrow.renewing.LoadOrStore(l.Key(), true)
	return another, func() { c.narrow.renewing.Delete(l.Key()) }
}
