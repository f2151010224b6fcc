package conformance_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// joinedCallMutants are bugs of calls that begin while another call for the same lease or key is under way.
var joinedCallMutants = []mutant{
	{releaseBehind, "ReleaseBesideHungRenewal"},
	{renewJoins, "CancelledCallSparesSecond"},
	{inspectJoins, "CancelledCallSparesSecond"},
}

const (
	releaseBehind = "Release waits for a renewal that is repeated until its context ends"
	renewJoins    = "Renew that meets another returns the other's error"
	inspectJoins  = "Inspect that meets another of its key returns the other's error"
)

// A joint is the result of a call that others have joined.
type joint struct {
	done   chan struct{} // closed when the call has ended
	holder backend.Holder
	err    error
}

// joints are the calls under way, by what they are for.
type joints struct{ byName sync.Map }

// join calls f. If the call of that name is under way, join waits for it, and returns its result.
func (j *joints) join(ctx context.Context, name any, f func() (backend.Holder, error)) (backend.Holder, error) {
	own := &joint{done: make(chan struct{})}
	if under, met := j.byName.LoadOrStore(name, own); met {
		first := under.(*joint)
		select {
		case <-first.done:
			return first.holder, first.err
		case <-ctx.Done():
			return backend.Holder{}, kit.ContextError(ctx, nil)
		}
	}
	own.holder, own.err = f()
	j.byName.Delete(name)
	close(own.done)
	return own.holder, own.err
}

// renewJoined is Renew with the bug renewJoins.
func (b *bent) renewJoined(ctx context.Context, ttl time.Duration) error {
	_, err := b.c.joints.join(ctx, b, func() (backend.Holder, error) { return backend.Holder{}, b.Life.Renew(ctx, ttl) })
	return err
}

// renewStubbornly is Renew with the bug releaseBehind.
func (b *bent) renewStubbornly(ctx context.Context, ttl time.Duration) error {
	for {
		err := b.Life.Renew(ctx, ttl)
		if !errors.Is(err, backend.ErrUnavailable) || ctx.Err() != nil || b.c.leases.Closed() {
			return err
		}
		time.Sleep(time.Millisecond) // sleeps: before the next attempt
	}
}

// waitsForRenewal waits until no Renew of the lease is under way, with the bug releaseBehind.
func (b *bent) waitsForRenewal() {
	for b.is(releaseBehind) && b.renewing.Load() > 0 {
		time.Sleep(time.Millisecond) // sleeps: as if a renewal held a lock
	}
}

// inspectOddly asks the server who holds key, with the bugs of an Inspect that meets another or Close.
func (c *client) inspectOddly(ctx context.Context, key string) (backend.Holder, error) {
	ask := func() (backend.Holder, error) { return c.askHolder(ctx, key) }
	if c.is(inspectJoins) {
		return c.joints.join(ctx, key, ask)
	}
	h, err := ask()
	for err != nil && ctx.Err() == nil && c.is(inspectOutlivesClose) {
		time.Sleep(time.Millisecond) // sleeps: before the next attempt
		h, err = ask()
	}
	return h, err
}

// askHolder makes the request of an Inspect.
func (c *client) askHolder(ctx context.Context, key string) (backend.Holder, error) {
	if c.is(inspectShifts) {
		return c.nextHolder(ctx, key)
	}
	var found backend.Holder // a late reply may still write to it
	if err := c.do(ctx, func() { found = c.server.inspect(key) }); err != nil {
		return backend.Holder{}, err
	}
	return found, nil
}
