package redis

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// leaseData is the Data of a lease.
type leaseData struct {
	names names
	value string      // value of the lock's key, or the lease's member in the set of readers
	ended atomic.Bool // Acquire has failed, or a release has begun
}

// lockValue is the value of a lock's Redis key.
func lockValue(token uint64, owner string) string {
	return strconv.FormatUint(token, 10) + ":" + owner
}

// requests sends the requests of Leases to the server.
type requests struct{ b *Backend }

var _ kit.Requests = requests{}

// Guarantees implements [kit.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// ReleaseLease implements [kit.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	lease, granted := l.Data.(*leaseData)
	if granted {
		ctx = context.WithoutCancel(ctx) // see newBackend; Options.Timeout bounds the release too
		lease.ended.Store(true)
	} else {
		lease = &leaseData{names: q.b.naming.names(l.Key()), value: lockValue(0, l.Owner())}
	}
	removed, unsure, err := q.b.release(ctx, lease.names, lease.value, l.Shared())
	switch {
	case err != nil || removed:
		return err
	case unsure:
		return l.LostAfterDeadline()
	}
	return backend.ErrLost
}

// release removes the lease, reservation or queue entry of the owner in value, and reports whether there was one. value
// is lockValue of the lease, with token 0 if the owner may have no lease. unsure reports whether an earlier attempt,
// which got no reply, may have removed it.
func (b *Backend) release(ctx context.Context, n names, value string, shared bool) (removed, unsure bool, err error) {
	script := releaseScript
	if shared {
		script = releaseSharedScript
	}
	v, unsure, err := b.eval(ctx, script.Request([]string{n.lock, n.queue}, value, b.channel))
	if err != nil {
		return false, unsure, err
	}
	count, ok := v.(int64)
	if !ok {
		return false, unsure, exchange.ErrReply(v)
	}
	return count > 0, unsure, nil
}
