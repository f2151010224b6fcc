package pair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
)

// queueAtMost is the longest time that a waiter queues at the second store while it holds the first store's half.
const queueAtMost = time.Second

// SwitchDelay is the time to wait after the first store's numbers have passed the cut. Only then may a process use the
// second store alone, because until then a lease may be granted with a number below the cut.
const SwitchDelay = 2 * time.Second

// Acquire implements backend.Backend.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := b.validateKey(r.Key); err != nil {
		return nil, err
	}
	pause := kit.Pause{Min: 10 * time.Millisecond, Max: 250 * time.Millisecond}
	a := attempt{pair: b, r: r, ttl: b.guarantees.Round(r.TTL), pause: pause}
	return b.leases.Acquire(ctx, r, kit.Waiter{
		Try: a.try, Refused: a.lastRefusal, Pause: pause, CleanUp: func() {}, // each store cleans up its own half
	})
}

// An attempt is one call of Acquire.
type attempt struct {
	pair  *Backend
	r     backend.Request
	ttl   time.Duration // rounded
	pause kit.Pause     // between checks whether there is room for another lease
	tries int           // how often tryOnce was called
	busy  error         // a refusal not yet reported to the Waiter
}

// try acquires both halves, and starts again if the first store's number is too old. A waiter first waits until this
// client has room for another lease.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	for {
		for full := a.checkRoom(); full != nil; full = a.checkRoom() {
			if !a.r.Wait {
				return nil, full
			}
			if err := kit.Sleep(ctx, a.pause.Next(0)); err != nil {
				return nil, err
			}
		}
		l, err := a.tryOnce(ctx)
		full := a.r.Wait && errors.Is(err, backend.ErrUnavailable) && a.checkRoom() != nil
		if !full && !errors.Is(err, errOldNumber) {
			return l, err
		}
	}
}

// tryOnce acquires the first store's half, then the second store's. If it fails, it releases what it has acquired.
func (a *attempt) tryOnce(ctx context.Context) (backend.Lease, error) {
	b, h := a.pair, &halves{firstRequested: time.Now(), releaseBegun: make(chan struct{})}
	a.tries++
	var err error
	if h.first, err = a.acquireHalf(ctx, b.first, time.Time{}); err != nil {
		return nil, err
	}
	h.firstGranted = time.Now()
	limit := earlier(h.firstGranted.Add(queueAtMost), h.first.Deadline())
	if h.second, err = a.acquireHalf(ctx, b.second, limit); err != nil {
		b.releaseHalves(ctx, h.first)
		return nil, err
	}
	token, err := a.token(ctx, h)
	if err != nil {
		b.releaseHalves(ctx, h.second, h.first)
		return nil, kit.NotOurs(ctx, err)
	}
	life, err := b.leases.Grant(ctx, a.r, kit.Grant{Token: token, Sent: b.sent(h, a.ttl), TTL: a.ttl, Data: h})
	if err != nil {
		return nil, err // Grant releases both halves in the background
	}
	h.watch(life)
	return &lease{life, b, h}, nil
}

// lastRefusal returns the refusal that has not been reported to the Waiter yet, or nil if there is none.
func (a *attempt) lastRefusal() (busy error) {
	busy, a.busy = a.busy, nil
	return busy
}

// checkRoom returns an error if this client already holds as many leases as the stores allow.
func (a *attempt) checkRoom() error {
	most := a.pair.guarantees.MaxLeases
	if most == 0 || a.pair.leases.Len() < most {
		return nil
	}
	return fmt.Errorf("%w: no room for another lease: all %d are held", backend.ErrUnavailable, most)
}

// acquireHalf acquires one store's half. If the half is busy, a waiter queues for it, until limit unless limit is zero.
// The first request does not wait. If it is refused, the key is busy, so the waiter survives an outage of either store.
func (a *attempt) acquireHalf(ctx context.Context, s Store, limit time.Time) (backend.Lease, error) {
	n := 2 * (a.tries - 1) // each try makes up to two requests to a store
	r := backend.Request{Key: a.r.Key, Owner: numbered(a.r.Owner, n), TTL: a.ttl, Shared: a.r.Shared}
	l, err := s.acquire(ctx, r)
	if err == nil || !a.r.Wait || !errors.Is(err, backend.ErrHeld) || kit.Ended(ctx) {
		return l, err
	}
	a.busy = err
	if !limit.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, limit)
		defer cancel()
	}
	r.Owner, r.Wait = numbered(a.r.Owner, n+1), true
	return s.acquire(ctx, r)
}

// acquire requests the key at one store. In a refusal, it replaces the holder's owner by the pair's, and removes the
// token, because the token of a pair depends on both stores.
func (s Store) acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	r.Key = s.Prefix + r.Key
	l, err := s.Backend.Acquire(ctx, r)
	if held, busy := errors.AsType[*backend.HeldError](err); busy {
		held.Holder.Owner, held.Holder.Token = plainOwner(held.Holder.Owner), 0
	}
	return l, err
}

// releaseHalves releases halves in the background, and returns when they are released or ctx ends. After Close it does
// nothing.
func (b *Backend) releaseHalves(ctx context.Context, halves ...backend.Lease) {
	done := make(chan struct{})
	if !b.leases.Go(func(context.Context) {
		defer close(done)
		for _, half := range halves {
			_ = half.Release(context.WithoutCancel(ctx)) // if this fails, the half expires with its TTL
		}
	}) {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// token returns the token of a new lease of both halves. If acquiring the second half took long, token first renews the
// first half, so that the lease begins with nearly all of its TTL.
func (a *attempt) token(ctx context.Context, h *halves) (uint64, error) {
	if time.Since(h.firstGranted) > a.ttl/10 {
		if err := h.first.Renew(ctx, a.ttl); err != nil {
			return 0, err
		}
	}
	token, fromFirst, err := a.pair.tokenOf(h)
	if err == nil && fromFirst {
		err = a.checkCut(ctx, h)
	}
	return token, err
}

// tokenOf returns the token of a lease of both halves. fromFirst reports whether the token is the first store's number.
func (b *Backend) tokenOf(h *halves) (token uint64, fromFirst bool, err error) {
	first, err := driver.AddTokenBase(h.first.Token(), b.first.TokenBase)
	if err == nil {
		token, err = driver.AddTokenBase(h.second.Token(), b.second.TokenBase)
	}
	if err != nil {
		return 0, false, err
	}
	if fromFirst = first != 0 && first < b.cut; fromFirst {
		token = first
	}
	if b.guarantees.Fencing == backend.FencingNone {
		token = 0
	}
	return token, fromFirst, nil
}

// errOldNumber reports that both halves were released because the first store's number was too old. The next attempt
// gets a number that is not below the cut, and so does every later lease. Using the second store's number for this
// lease would not do, because the next lease might still get a number of the first store that is below the cut.
var errOldNumber = errors.New("the number is older than the cut")

// checkCut returns errOldNumber if the first store's numbers may have passed the cut more than SwitchDelay ago, because
// another process may then use the second store alone. Call it while both halves are held. Some stores number a waiter
// when it arrives, so the number of the first half may be old. So checkCut draws a new number, with a lease on a key of
// its own.
func (a *attempt) checkCut(ctx context.Context, h *halves) error {
	if time.Since(h.firstRequested) < SwitchDelay {
		return nil
	}
	b := a.pair
	owner := backend.NewOwner()
	probe, err := b.first.acquire(ctx, backend.Request{Key: "anylock-pair-" + owner, Owner: owner, TTL: a.ttl})
	if err != nil {
		return err
	}
	b.releaseHalves(ctx, probe)
	n, err := driver.AddTokenBase(probe.Token(), b.first.TokenBase)
	if err == nil && n >= b.cut {
		err = errOldNumber
	}
	return err
}

// sent returns the Grant.Sent with which a lease of ttl ends at the earlier deadline of the two halves. If ttl is
// longer than MaxSilence, the deadline of a half moves by itself. sent then returns the current time, and the lease
// ends when a half reports its loss.
func (b *Backend) sent(h *halves, ttl time.Duration) time.Time {
	if most := b.guarantees.MaxSilence; most > 0 && ttl > most {
		return time.Now()
	}
	return earlier(h.first.Deadline(), h.second.Deadline()).Add(backend.Margin(ttl) - ttl)
}
