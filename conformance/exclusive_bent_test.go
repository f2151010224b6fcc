package conformance_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// exclusiveBent are those of exclusiveMutants whose client returns bent leases.
var exclusiveBent = []string{
	"channel of Lost is a new one after Renew",
	"channel of Lost from before a Renew closes at the old deadline",
	"of leases renewed in one batch only the first is lost at the deadline",
	"release of the lease that ends first stops the timer of the others",
	crowdTimer,
	"stale release makes the client forget its next lease of the key",
	"OnLost calls under the lock of Deadline",
	onLostLock,
	deadlineWaits,
	"OnLost calls before Lost closes when its client is closed",
	"OnLost calls before Lost closes when a renewal hears of the loss",
	"OnLost forgets its functions when a batch renews the lease",
	"context of Renew ends the lease",
	"Renew whose own context ends after the reply is undone",
	"Release that its context ends under way is not repeated",
	"batch that meets a Renew keeps the later deadline",
	"lease that a batch has refused as invalid is not renewed again",
	"lease of a batch whose context had ended is not renewed again",
}

// An aloneLease is the state of a bent lease with one of the bugs exclusiveBent. It has its own Lost and OnLost.
type aloneLease struct {
	mu    sync.Mutex
	lost  chan struct{}
	over  bool
	calls []func()      // registered with OnLost
	gate  chan struct{} // a lock; goroutines that wait for it let fake time pass
	stuck atomic.Bool   // it is not renewed any more
	late  atomic.Bool   // Lost closes 3 seconds late
	never atomic.Bool   // Lost does not close before its client is closed
}

// bendAlone returns life, bent, if the client has one of the bugs exclusiveBent. Otherwise it returns nil.
func (c *client) bendAlone(life *kit.Life) backend.Lease {
	if !slices.Contains(exclusiveBent, c.server.bug) {
		return nil
	}
	b := &bent{Life: life, c: c, alone: &aloneLease{lost: make(chan struct{}), gate: make(chan struct{}, 1)}}
	if !life.Shared() {
		c.latest.Store(life.Key(), b)
		c.live.Store(b, true)
		c.stopped.Store(false)
	}
	life.OnLost(b.loses)
	return b
}

// loses closes Lost and makes the callbacks, with the bug.
func (b *bent) loses() {
	b.c.latest.CompareAndDelete(b.Key(), b)
	b.c.live.Delete(b)
	t := b.alone
	closes := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.over = true
		select {
		case <-t.lost:
		default:
			close(t.lost)
		}
	}
	calls := func() {
		t.mu.Lock()
		fs := t.calls
		t.mu.Unlock()
		if b.is("OnLost calls under the lock of Deadline", onLostLock) {
			defer b.lock()()
		}
		for _, f := range fs {
			f()
		}
	}
	both := func() { closes(); calls() }
	early := time.Now().Before(b.Life.Deadline())
	switch {
	case b.c.leases.Closed() && b.is("OnLost calls before Lost closes when its client is closed"),
		early && !b.c.leases.Closed() && b.renewing.Load() > 0 &&
			b.is("OnLost calls before Lost closes when a renewal hears of the loss"):
		calls()
		closes()
	case b.c.leases.Closed():
		both()
	case t.never.Load():
	case t.late.Load(), b.c.stopped.Load() && !early &&
		b.is("release of the lease that ends first stops the timer of the others"):
		time.AfterFunc(3*time.Second, both)
	default:
		both()
	}
}

// lock acquires the gate. At the end of the test, it returns in any case.
func (b *bent) lock() (unlock func()) {
	select {
	case b.alone.gate <- struct{}{}:
		return func() { <-b.alone.gate }
	case <-b.c.server.stop:
		return func() {}
	}
}

func (b *bent) onLostAlone(f func()) {
	if b.is(onLostLock) {
		defer b.lock()()
	}
	t := b.alone
	t.mu.Lock()
	over := t.over
	if !over {
		t.calls = append(t.calls, f)
	}
	t.mu.Unlock()
	if over {
		f()
	}
}

func (b *bent) lostAlone() <-chan struct{} {
	b.alone.mu.Lock()
	defer b.alone.mu.Unlock()
	return b.alone.lost
}

func (b *bent) deadlineAlone() time.Time {
	if b.is("OnLost calls under the lock of Deadline") {
		defer b.lock()()
	}
	for b.is(deadlineWaits) && b.renewing.Load() > 0 && isOpen(b.c.server.stop) {
		time.Sleep(100 * time.Microsecond) // sleeps: a renewal is under way
	}
	if d := b.batched.Load(); d != nil && b.is("batch that meets a Renew keeps the later deadline") {
		if end := b.Life.Deadline(); end.After(*d) {
			return end
		}
		return *d
	}
	return b.Life.Deadline()
}

func (b *bent) renewAlone(ctx context.Context, ttl time.Duration) error {
	b.renewing.Add(1)
	defer b.renewing.Add(-1)
	t := b.alone
	if t.stuck.Load() {
		return fmt.Errorf("%w: a renewal is under way", backend.ErrUnavailable)
	}
	old := b.Life.Deadline()
	err := b.Life.Renew(ctx, ttl)
	b.c.stopped.Store(false)
	if err != nil {
		return err
	}
	switch {
	case b.is("channel of Lost is a new one after Renew"):
		t.mu.Lock()
		if !t.over {
			t.lost = make(chan struct{})
		}
		t.mu.Unlock()
	case b.is("channel of Lost from before a Renew closes at the old deadline"):
		t.mu.Lock()
		if !t.over {
			last := t.lost
			t.lost = make(chan struct{})
			time.AfterFunc(time.Until(old), func() { close(last) })
		}
		t.mu.Unlock()
	case b.is("context of Renew ends the lease"):
		context.AfterFunc(ctx, func() { _ = b.Life.Release(context.Background()) })
	case b.is("Renew whose own context ends after the reply is undone"):
		context.AfterFunc(ctx, func() { _ = b.Life.Renew(context.Background(), time.Until(old)) })
	}
	return nil
}

func (b *bent) releaseAlone(ctx context.Context) error {
	c := b.c
	if b.is("Release that its context ends under way is not repeated") && ctx.Err() == nil {
		defer context.AfterFunc(ctx, func() { c.gaveUp.Store(b.Owner(), true) })()
	}
	stale := !time.Now().Before(b.Life.Deadline())
	if _, live := c.live.Load(b); live && b.endsFirst() {
		c.stopped.Store(true)
	}
	b.stopsLast()
	c.latest.CompareAndDelete(b.Key(), b)
	c.live.Delete(b)
	err := b.Life.Release(ctx)
	if stale && b.is("stale release makes the client forget its next lease of the key") {
		if next, ok := c.latest.Load(b.Key()); ok {
			next.(*bent).alone.never.Store(true)
		}
	}
	return err
}

// endsFirst reports whether no live lease of the client has an earlier deadline.
func (b *bent) endsFirst() bool {
	first := true
	b.c.live.Range(func(o, _ any) bool {
		first = first && !o.(*bent).Life.Deadline().Before(b.Life.Deadline())
		return first
	})
	return first
}

// batchAlone is RenewBatch with one of exclusiveMutants. done reports whether the client has one.
func (c *client) batchAlone(ctx context.Context, given []backend.Renewal) (errs []error, done bool) {
	if !c.server.isExclusive() {
		return nil, false
	}
	if c.leases.Closed() && c.is("batch of a closed client has no answers") {
		return nil, true
	}
	if c.is("each batch leaves a goroutine until Close") {
		go func() { <-c.done }()
	}
	for _, r := range given {
		if b, ok := r.Lease.(*bent); ok {
			if b.alone.stuck.Load() {
				return slices.Repeat([]error{fmt.Errorf("%w: a renewal is under way", backend.ErrUnavailable)}, len(given)), true
			}
			b.renewing.Add(1)
			defer b.renewing.Add(-1)
			if b.renewing.Load() > 1 && len(given) == 1 && b.is("batch that meets a Renew keeps the later deadline") {
				return []error{b.renewBeside(ctx, r.TTL)}, true
			}
		}
	}
	plain := straight(given)
	if c.is("batch has one answer for a lease that it contains twice") {
		var once []backend.Renewal
		for _, r := range plain {
			if !slices.ContainsFunc(once, func(o backend.Renewal) bool { return o.Lease == r.Lease }) {
				once = append(once, r)
			}
		}
		plain = once
	}
	errs = c.leases.RenewBatch(ctx, plain, c.sendsAlone)
	if c.is("lease that a batch contains twice has the first deadline and the last expiry") {
		for i, r := range plain {
			if slices.ContainsFunc(plain[:i], func(o backend.Renewal) bool { return o.Lease == r.Lease }) && r.TTL > 0 {
				l := r.Lease.(*kit.Life)
				_ = c.do(ctx, func() { c.server.renew(l.Key(), l.Owner(), c, r.TTL) })
				errs[i] = nil
			}
		}
	}
	for i, r := range given {
		b, ok := r.Lease.(*bent)
		if !ok {
			continue
		}
		if !errors.Is(errs[i], backend.ErrLost) {
			c.stopped.Store(false)
		}
		switch {
		case b.is("OnLost forgets its functions when a batch renews the lease") && errs[i] == nil:
			b.alone.mu.Lock()
			b.alone.calls = nil
			b.alone.mu.Unlock()
		case b.is("lease that a batch has refused as invalid is not renewed again") && errors.Is(errs[i], backend.ErrInvalid),
			b.is("lease of a batch whose context had ended is not renewed again") && kit.IsContextError(errs[i]):
			b.alone.stuck.Store(true)
		case b.is("of leases renewed in one batch only the first is lost at the deadline") && errs[i] == nil:
			b.alone.late.Store(i > 0)
		}
	}
	if c.is("answers of a batch are overwritten by the next one") {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answers = append(c.answers[:0], errs...)
		return c.answers, true
	}
	return errs, true
}

// renewBeside renews b beside another renewal, and keeps the later of the deadlines.
func (b *bent) renewBeside(ctx context.Context, ttl time.Duration) error {
	deadline, ok := backend.Deadline(time.Now(), ttl), false
	if err := b.c.do(ctx, func() { ok = b.c.server.renew(b.Key(), b.Owner(), b.c, ttl) }); err != nil {
		return err
	}
	if !ok {
		return backend.ErrLost
	}
	b.batched.Store(&deadline)
	return nil
}

// sendsAlone sends the requests of a batch.
func (c *client) sendsAlone(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
	n := len(lives)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if c.is("answers of a batch are in the order of TTLs") {
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ttls[i], ttls[j]) })
	}
	found := make([]error, n)
	err := c.do(ctx, func() {
		for k, i := range order {
			if !c.renewed(lives[i], ttls[i]) {
				found[k] = backend.ErrLost
			}
		}
	})
	if err != nil {
		return ttls, slices.Repeat([]error{err}, n)
	}
	if c.is("batch matches its answers by key") {
		byKey := make(map[string]error)
		for i, l := range lives {
			byKey[l.Key()] = found[i]
		}
		for i, l := range lives {
			found[i] = byKey[l.Key()]
		}
	}
	return ttls, slices.Clone(found)
}
