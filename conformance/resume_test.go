package conformance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/memory"
)

// A badResumer is a client of a store in memory with one bug in Resume.
type badResumer struct {
	*memory.Backend
	bug string
}

func (b badResumer) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	h, err := b.Inspect(context.WithoutCancel(ctx), r.Key)
	if err != nil {
		return nil, err
	}
	switch {
	case b.bug == "returns the lease of any owner" && h.Held():
		r.Owner = h.Owner
	case b.bug == "ends the lease if its context has ended" && ctx.Err() != nil:
		_ = b.Break(context.WithoutCancel(ctx), r.Key, h.Owner)
	case b.bug == "ignores its context":
		ctx = context.WithoutCancel(ctx)
	}
	l, err := b.Backend.Resume(ctx, r)
	switch {
	case b.bug == "acquires a free key" && errors.Is(err, backend.ErrLost) && !h.Held():
		l, err = b.Acquire(ctx, r)
	case err != nil:
	case b.bug == "does not extend":
		err = l.Renew(ctx, h.TTL)
	case b.bug == "returns another token", b.bug == "returns a late deadline":
		l = badResumed{l, b.bug}
	}
	return l, err
}

type badResumed struct {
	backend.Lease
	bug string
}

func (l badResumed) Token() uint64 {
	if l.bug == "returns another token" {
		return l.Lease.Token() + 1
	}
	return l.Lease.Token()
}

func (l badResumed) Deadline() time.Time {
	if l.bug == "returns a late deadline" {
		return l.Lease.Deadline().Add(time.Hour)
	}
	return l.Lease.Deadline()
}

// The check of Resume passes a right store, and finds each of these bugs.
func TestResumeCheck(t *testing.T) {
	for _, bug := range []string{
		"", "returns the lease of any owner", "acquires a free key", "ends the lease if its context has ended", "ignores its context",
		"does not extend", "returns another token", "returns a late deadline",
	} {
		var failed bool
		err := conformance.InBubble(t, func(t *testing.T) {
			store := memory.NewStore()
			h := conformance.Harness{
				Open: func(context.Context) (backend.Backend, error) { return badResumer{store.Client(), bug}, nil },
			}
			result, err := conformance.ExecuteResume(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			failed = result.Status == conformance.Fail
			if bug == "" && result.Status != conformance.Pass {
				t.Errorf("%s\n%s", result.Status, result.Output)
			}
		})
		if err != nil {
			t.Errorf("%q: %v", bug, err)
		}
		if failed != (bug != "") {
			t.Errorf("%q: found %v", bug, failed)
		}
	}
}
