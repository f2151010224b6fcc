package lock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A HeldKey is a key that is held, without the Locker's prefix, and who holds it.
type HeldKey struct {
	Key string
	Holder
}

// Ops are the methods for operators: tools, dashboards, probes and people. Applications that only lock do not need
// them.
type Ops struct{ l *Locker }

// Ops returns the methods for operators.
func (l *Locker) Ops() Ops { return Ops{l} }

// Inspect returns who holds key. It is for people and tools: the answer may be out of date by the time it arrives. For
// a free key, it returns the zero Holder. For shared leases, it returns the holder of the lease that ends last, and the
// number of leases. The token is that of the lease's first holder; after hand-offs, the current holder's token is
// higher by up to 255.
func (o Ops) Inspect(ctx context.Context, key string) (Holder, error) {
	var h Holder
	full, err := o.l.fullKey(key)
	if err == nil {
		h, err = o.l.backend.Inspect(ctx, full)
	}
	return o.l.withToken(h), o.l.error("inspect", full, err)
}

// List returns the held keys that begin with prefix, and their holders, sorted by key. It is for people and tools: the
// answer may be out of date by the time it arrives, and the store may have to scan everything that it keeps.
// ErrUnsupported means that the store cannot list its keys.
func (o Ops) List(ctx context.Context, prefix string) ([]HeldKey, error) {
	held, err := o.l.list(ctx, o.l.defaults.prefix+prefix)
	return held, o.l.error("list", o.l.defaults.prefix+prefix, err)
}

func (l *Locker) list(ctx context.Context, prefix string) ([]HeldKey, error) {
	lister, ok := l.backend.(backend.Lister)
	if !ok {
		return nil, cmp.Or(l.checkOpened(), fmt.Errorf("%w: the store cannot list its keys", ErrUnsupported))
	}
	keys, err := lister.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	all := make([]HeldKey, len(keys))
	// The first error ends the list: do not send thousands of requests to a store that fails.
	listing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	slots := make(chan struct{}, 16) // limits the requests at once
	var workers sync.WaitGroup
	for i, key := range keys {
		slots <- struct{}{}
		if listing.Err() != nil {
			break
		}
		workers.Go(func() {
			defer func() { <-slots }()
			h, err := l.backend.Inspect(listing, key)
			if err != nil {
				stop(err)
			}
			all[i] = HeldKey{strings.TrimPrefix(key, l.defaults.prefix), l.withToken(h)}
		})
	}
	workers.Wait()
	if err := context.Cause(listing); err != nil {
		return nil, cmp.Or(kit.ContextError(ctx, nil), err)
	}
	return slices.DeleteFunc(all, func(k HeldKey) bool { return !k.Held() }), nil
}

// Break ends the lease that owner has on key, no matter which process holds it, and the next waiter gets the key. The
// holder may still be working: it notices the loss soon if the store reports it, and at its next renewal at the latest.
// So make sure that the holder is dead, or that the resource it writes to checks fencing tokens. Get owner from Inspect
// or List, so that you do not end somebody else's lease. If the key has several shared leases, Break ends only that of
// owner: to end all, repeat Inspect and Break.
//
// "The next waiter" is the next waiter at the store. If Guarantees.ReportsLoss is false, the holder's process may hand
// the lease on to a waiter of its own for 10 ms after the store has last confirmed the lease. Such a holder may overlap
// with the next owner.
//
// ErrLost means that owner no longer holds the key. ErrUnsupported means that the store cannot break leases.
func (o Ops) Break(ctx context.Context, key, owner string) error {
	full, err := o.l.fullKey(key)
	breaker, ok := o.l.backend.(backend.Breaker)
	switch {
	case err != nil:
	case owner == "":
		err = fmt.Errorf("%w: empty owner", ErrInvalid)
	case !ok:
		err = fmt.Errorf("%w: the store cannot end the leases of others", ErrUnsupported)
	default:
		err = breaker.Break(ctx, full, owner)
	}
	if err == nil {
		o.l.defaults.logger.Warn("lease broken", "key", full, "backend", o.l.name, "owner", owner)
	}
	return o.l.error("break", full, err)
}

// probeKey is a key to inspect only for the store's answer. It is one byte, for which every prefix leaves room.
const probeKey = "?"

// A Finding is a problem with a store that affects its locks, or something that is good to know about it.
type Finding = backend.Finding

// Examine returns the problems of the store that affect locks with the Locker's TTL, and what is good to know about the
// store, the worst first. It is for people and tools, for example before a deploy. It changes nothing beyond what
// opening the store has changed.
func (o Ops) Examine(ctx context.Context) ([]Finding, error) {
	if err := o.l.checkOpened(); err != nil {
		return nil, o.l.error("examine", "", err)
	}
	list, err := kit.Examine(ctx, o.l.backend, o.l.defaults.prefix+probeKey, o.l.timeToDeadline(o.l.defaults.ttl))
	return list, o.l.error("examine", "", err)
}

// Ping makes one cheap read request to the store, for readiness probes. nil means that the store answers and that
// NotReady is nil. Ping acquires no lease, and does not check whether the store could write one.
func (o Ops) Ping(ctx context.Context) error {
	err := o.l.checkOpened()
	if err == nil { // NotReady comes second, because it may learn from the reply
		_, err = o.l.backend.Inspect(ctx, o.l.defaults.prefix+probeKey)
	}
	return cmp.Or(o.l.error("ping", "", err), o.NotReady())
}

// NotReady returns an error if the store cannot grant leases yet. The error names the part of the store that cannot,
// until when, and why. nil means that the store can grant leases, or does not know. NotReady makes no request.
func (o Ops) NotReady() error {
	return o.l.error("acquire", "", o.l.notReady())
}
