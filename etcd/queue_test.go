package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// A refusal counts the waiters, whether the holder is exclusive or shared.
func TestRefusalCountsWaiters(t *testing.T) {
	t.Parallel()
	b := opened(t, shared(t).URL())
	for key, holder := range map[string]backend.Request{
		"exclusive": req("exclusive", time.Minute), "shared": asReader(req("shared", time.Minute)),
	} {
		l := acquire(t, b, holder)
		queueUp(t, b, waiting(key, time.Minute), 1)
		queueUp(t, b, waiting(key, time.Minute), 2)
		_, err := b.Acquire(t.Context(), req(key, time.Minute))
		if held := new(backend.HeldError); !errors.As(err, &held) || held.Holder.Waiters != 2 {
			t.Errorf("%s: %v, %+v, want 2 waiters", key, err, held)
		}
		release(t, l)
	}
}
