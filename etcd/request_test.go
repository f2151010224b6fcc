package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// If a process was frozen during its first request, for longer than requests are repeated, it still repeats the
// request, because the servers may work. After a second request without a reply, it gives up.
func TestFrozenRequestIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Backend{options: Options{Timeout: 5 * time.Second}}
		for answers, want := range map[int]bool{2: true, 3: false} {
			n := 0
			unanswered, err := b.repeat(t.Context(), func(ctx context.Context) error {
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

func TestNoAnswerIsNoErrorOfAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Backend{options: Options{Timeout: 5 * time.Second}}
		begun := time.Now()
		_, err := b.repeat(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return clientv3.ContextError(ctx, ctx.Err())
		})
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errNoAnswer) {
			t.Errorf("got %v", err)
		}
		most := b.options.Timeout + b.options.Timeout/attemptsPerTimeout
		if took := time.Since(begun); took < b.options.Timeout || took > most {
			t.Errorf("after %v", took)
		}
	})
}
