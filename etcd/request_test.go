package etcd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A process that was frozen in its first request, for longer than it would repeat it, asks again when it goes on: the store
// works. One that has asked twice has seen an outage.
func TestFrozenRequestIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Backend{options: Options{Timeout: 5 * time.Second}, limits: newLimits()}
		for answers, want := range map[int]bool{2: true, 3: false} {
			n := 0
			unanswered, err := b.repeat(t.Context(), b.options.Timeout, func(ctx context.Context) error {
				if n++; n == answers {
					return nil
				}
				time.Sleep(time.Minute)
				return ctx.Err()
			})
			if !unanswered || (err == nil) != want {
				t.Errorf("answered at attempt %d, after frozen ones: %v, unanswered %v", answers, err, unanswered)
			}
		}
	})
}
