package lock

import (
	"context"
)

type contextKey struct{}

// heldUnder finds the live lease of full that ctx travels under, nil if there is none.
func heldUnder(ctx context.Context, l *Locker, full string) *Lease {
	for {
		lease, _ := ctx.Value(contextKey{}).(*Lease)
		if lease == nil {
			return nil
		}
		t := lease.tenure
		if t.hold.locker == l && t.hold.gate.key == full && t.isHeld() {
			return lease
		}
		ctx = lease.parent
	}
}

// reenter returns another handle on the lease's tenure, nil if that has ended meanwhile.
func (l *Lease) reenter(ctx context.Context) *Lease {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil
	}
	t.count++
	return &Lease{tenure: t, parent: ctx, again: true}
}
