package conformance_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A bent is a lease with the bug of its server.
type bent struct {
	*kit.Life
	c          *client
	lost       chan struct{}
	registered atomic.Bool // OnLost has been called

	batched atomic.Pointer[time.Time] // the deadline that a batch has set
	hung    atomic.Bool               // a batch is under way

	renewing  atomic.Int64 // renewals under way
	releasing atomic.Int64
	silent    atomic.Bool // OnLost callbacks are suppressed
	forgotten atomic.Bool // a Release has failed, in a mutant

	alone *aloneLease // the state of exclusiveBent
}

// bend returns life, or a lease with the mutant's bug.
func (c *client) bend(ctx context.Context, life *kit.Life, r backend.Request) backend.Lease {
	if b := c.bendAlone(life); b != nil {
		return b
	}
	if o := c.oddly(life, r.Wait, false); o != nil {
		return o
	}
	b := &bent{Life: life, c: c, lost: make(chan struct{})}
	closeAt := func(d time.Duration) { time.AfterFunc(d, func() { close(b.lost) }) }
	switch c.server.bug {
	case "Lost closes at half the TTL":
		closeAt(r.TTL / 2)
	case "Lost closes 3 seconds late":
		closeAt(time.Until(life.Deadline()) + 3*time.Second)
	case "Lost closes at the first deadline", "Lost closes after a clean release":
		closeAt(time.Until(life.Deadline()))
	case "hung batch keeps Lost open":
		life.OnLost(func() { go b.closesLost() })
	case "goroutine for each lease":
		go func() {
			select {
			case <-life.Lost():
			case <-c.done:
			}
		}()
		return life
	case "context of Acquire ends the lease":
		context.AfterFunc(ctx, func() { _ = life.Release(context.Background()) })
		return life
	case "Lost never closes", "stale Release is sent without owner", "stale Renew is sent without owner",
		"stale Renew takes a free key", "Release is not sent when its context has ended", "second Release is ErrLost",
		"Release after expiry is nil", "Renew takes TTL 0", "longer TTL than MaxTTL is taken",
		"Release ends every lease of the client",
		"hung Renew keeps Lost open", "Release waits for the store for ever", "OnLost calls twice",
		"Renew ignores the context",
		"OnLost calls after a release", "Renew succeeds after Release", "late answer revives the lease",
		"unanswered shorter renewal is not counted", "renewal below MinTTL ends the lease", "renewal below MinTTL is refused",
		"renewal below MinTTL is kept as asked", "renewal below MinTTL does nothing",
		"renewal of a reader below MinTTL is kept as asked",
		"OnLost is silent on Close", "OnLost is not called when the store reports the loss",
		"OnLost calls twice when the store reports the loss", "OnLost is not called for a removal after a cut",
		"OnLost is silent when a renewal hears of the loss",
		"OnLost of a reader is silent when a renewal hears of the loss", "OnLost calls at the first deadline",
		"OnLost calls 3 seconds after Lost closes", "OnLost calls only the first of several",
		"OnLost calls nothing that is registered after Close", "OnLost of a reader calls twice",
		"renewal under way ignores cancellation", "batch's deadline counts from the answer",
		"Renew that meets another ignores its context", "Release's timeout is a context's error",
		keepsLater, losesSecond, silentBatch, silentRelease, releaseBehind, renewJoins, renewOutlivesClose, releaseForgets:
	default:
		return life
	}
	return b
}

func (b *bent) is(bugs ...string) bool { return b.c.is(bugs...) }

func (b *bent) Deadline() time.Time {
	if b.alone != nil {
		return b.deadlineAlone()
	}
	if d := b.batched.Load(); d != nil {
		return *d
	}
	return b.Life.Deadline()
}

func (b *bent) Lost() <-chan struct{} {
	if b.alone != nil {
		return b.lostAlone()
	}
	if b.is("Lost never closes", "Lost closes at half the TTL", "Lost closes 3 seconds late",
		"Lost closes at the first deadline",
		"Lost closes after a clean release", "hung Renew keeps Lost open", "hung batch keeps Lost open") ||
		b.batched.Load() != nil && b.is(keepsLater) {
		return b.lost
	}
	return b.Life.Lost()
}

func (b *bent) OnLost(f func()) {
	if b.alone != nil {
		b.onLostAlone(f)
		return
	}
	switch {
	case b.is("OnLost calls twice"), b.Shared() && b.is("OnLost of a reader calls twice"):
		b.Life.OnLost(f)
	case b.c.leases.Closed() && b.is("OnLost calls nothing that is registered after Close"):
		return
	case b.is("OnLost calls after a release"):
		time.AfterFunc(time.Until(b.Deadline()), f)
	}
	b.onLost(f)
}

func (b *bent) Renew(ctx context.Context, ttl time.Duration) error {
	if b.alone != nil {
		return b.renewAlone(ctx, ttl)
	}
	ctx = b.c.only(ctx, "renewal under way ignores cancellation")
	defer b.renewing.Add(-1)
	switch met := b.renewing.Add(1) > 1; {
	case met && b.is("Renew that meets another ignores its context"):
		ctx = context.WithoutCancel(ctx)
	case met && b.is(keepsLater):
		return b.renewLater(ctx, ttl)
	case b.is(renewJoins):
		return b.renewJoined(ctx, ttl)
	case b.is(releaseBehind):
		return b.renewStubbornly(ctx, ttl)
	case b.is(renewOutlivesClose) && !b.c.leases.Closed():
		return b.renewPastClose(ctx, ttl)
	}
	s := b.c.server
	over := !time.Now().Before(b.Deadline())
	if ttl > 0 && ttl < b.c.Guarantees().MinTTL {
		if err, done := b.renewTiny(ctx, ttl); done {
			return err
		}
	}
	switch {
	case over && b.is("stale Renew is sent without owner"):
		s.mu.Lock()
		e := s.entryLocked(s.name(b.Key()))
		s.expireLocked(s.name(b.Key()), e, time.Now())
		e.expires = time.Now().Add(ttl)
		s.mu.Unlock()
		return backend.ErrLost
	case over && b.is("stale Renew takes a free key"):
		_, p, _ := s.acquire(b.c, backend.Request{Key: b.Key(), Owner: b.Owner(), TTL: ttl})
		if p == nil {
			return nil
		}
		return backend.ErrLost
	case b.is("Renew takes TTL 0") && ttl <= 0:
		return nil
	case b.is("longer TTL than MaxTTL is taken"):
		ttl = min(ttl, b.c.Guarantees().MaxTTL)
	case b.is("Renew ignores the context"):
		ctx = context.WithoutCancel(ctx)
	case b.is("Renew succeeds after Release"):
		_ = b.Life.Renew(ctx, ttl)
		return nil
	case b.is("late answer revives the lease"):
		_, err := requests{b.c}.RenewLease(context.WithoutCancel(ctx), b.Life, ttl)
		return err
	case b.is("unanswered shorter renewal is not counted") && ttl < time.Until(b.Deadline())/2:
		return b.late(ctx, ttl)
	case b.is("hung Renew keeps Lost open"):
		err := b.Life.Renew(ctx, ttl)
		_ = b.c.do(context.Background(), func() {}) // returns when the store replies
		close(b.lost)
		return err
	}
	return b.Life.Renew(ctx, ttl)
}

func (b *bent) Release(ctx context.Context) error {
	if b.alone != nil {
		return b.releaseAlone(ctx)
	}
	b.waitsForRenewal()
	b.silent.Store(b.is(silentRelease))
	defer b.releasing.Add(-1)
	if b.releasing.Add(1) > 1 && b.is(losesSecond) {
		return b.releaseSecond(ctx)
	}
	s := b.c.server
	over := !time.Now().Before(b.Deadline())
	switch {
	case over && b.is("stale Release is sent without owner"):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endLocked(s.name(b.Key()), s.entryLocked(s.name(b.Key())))
		return backend.ErrLost
	case over && b.is("Release after expiry is nil"):
		return nil
	case b.is("Release is not sent when its context has ended") && ctx.Err() != nil:
		return ctx.Err()
	case b.is("second Release is ErrLost"):
		if b.Life.Renew(ctx, time.Minute) != nil {
			return backend.ErrLost
		}
	case b.is("Release ends every lease of the client"):
		b.c.mu.Lock()
		lives := slices.Clone(b.c.lives)
		b.c.mu.Unlock()
		for _, l := range lives {
			_ = l.Release(ctx)
		}
	case b.is("Release waits for the store for ever"):
		for ; b.c.do(context.Background(), func() {}) != nil; time.Sleep(time.Millisecond) {
		}
	case b.is(releaseForgets):
		return b.releaseOnce(ctx)
	case b.is("Release's timeout is a context's error"):
		if err := b.Life.Release(ctx); err == nil || kit.Definite(err) || errors.Is(err, backend.ErrLost) {
			return err
		}
		return context.DeadlineExceeded
	}
	return b.Life.Release(ctx)
}
