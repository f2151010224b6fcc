package zookeeper

import (
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
)

func (b *Backend) isClosing() bool { return b.leases.Closed() }
func (s *session) isOver() bool    { return isClosed(s.over) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sleep pauses while the session lives.
func (s *session) sleep(ctx context.Context, d time.Duration) error {
	if pause(ctx, d, s.over) {
		return s.reason()
	}
	return kit.ContextError(ctx, nil)
}

// pause waits for d, or until ctx ends, or over is closed, which it reports.
func pause(ctx context.Context, d time.Duration, over <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-over:
		return true
	}
	return false
}
