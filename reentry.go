package lock

import (
	"context"
)

type contextKey struct{}

// heldUnder finds the live lease of full that ctx travels under, nil if there is none.
func heldUnder(ctx context.Context, l *Locker, full string) *Lease {
	lease, _ := ctx.Value(contextKey{}).(*Lease)
	for ; lease != nil; lease = lease.outer {
		t := lease.tenure
		if t.locker == l && t.gate.key == full && t.held() {
			return lease
		}
	}
	return nil
}

// reenter returns another handle on the lease's tenure, nil if that has ended meanwhile.
func (l *Lease) reenter(ctx context.Context) *Lease {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.count == 0 {
		return nil
	}
	t.count++
	return newLease(ctx, t)
}
