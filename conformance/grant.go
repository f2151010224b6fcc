package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

// A grant is a lease with the known bounds of its grant and end.
type grant struct {
	backend.Lease
	client     backend.Backend
	key, owner string
	ttl        time.Duration // as requested
	before     time.Time     // taken before Acquire was called
	after      time.Time     // taken after it returned
	shared     bool
	ended      atomic.Bool // Release or Break was called; its request may be under way
}

// Release implements backend.Lease.
func (g *grant) Release(ctx context.Context) error {
	g.ended.Store(true)
	return g.Lease.Release(ctx)
}

// live reports whether the lease was certainly exclusive at now.
func (g *grant) live(now time.Time) bool { return now.Before(g.Deadline()) }

// gone reports whether Lost is closed.
func (g *grant) gone() bool {
	select {
	case <-g.Lost():
		return true
	default:
		return false
	}
}

// lastRefusal returns the last instant at which the store may still refuse the key of a lease of ttl. The reply to the
// grant or last renewal arrived at answered.
func (t *trial) lastRefusal(answered time.Time, ttl time.Duration) time.Time {
	granted := t.g.Round(ttl)
	return answered.Add(granted + t.g.MaxLate + backend.Margin(granted))
}

// newKey returns a fresh key.
func (t *trial) newKey() string { return newKey() }

func newKey() string {
	var b [8]byte
	rand.Read(b[:])
	return "conformance-" + hex.EncodeToString(b[:])
}

// short is a TTL whose expiry checks wait for.
func (t *trial) short() time.Duration {
	const usual = 250 * time.Millisecond
	return t.g.Round(max(usual, t.g.MinTTL) * time.Duration(t.stretch))
}

// awaited is a short TTL of a lease that must still be live when a waiter has arrived: see arrived.
func (t *trial) awaited() time.Duration {
	return t.g.Round(t.short() + 2*t.h.ArrivalDelay*time.Duration(t.stretch))
}

// long is a TTL that does not run out during a check. The store also grants twice that TTL.
func (t *trial) long() time.Duration {
	const usual = 2 * time.Minute
	long := max(usual, 20*t.g.MinTTL, t.outwaited()+t.short())
	if t.g.MaxTTL > 0 {
		half := t.g.MaxTTL / 2
		long = min(long, half-half%max(1, t.g.Granularity))
	}
	return t.g.Round(long)
}

// outwaited is the longest time that a check waits while a long lease must live.
func (t *trial) outwaited() time.Duration { return 3*t.short() + t.g.MaxLate }

// mostStretched returns the largest factor by which TTLs can be lengthened on a slow machine, up to mostStretch. The
// store must grant every TTL that checks request, and long leases must outlive every wait. It returns 0 if not even the
// usual TTLs are possible.
func mostStretched(g backend.Guarantees, h Harness) int {
	for stretch := mostStretch; stretch > 0; stretch /= 2 {
		t := &trial{g: g, h: h, stretch: stretch}
		arrival, long := h.ArrivalDelay*time.Duration(stretch), t.long()
		if arrival+t.outwaited() < long-backend.Margin(long) && 2*long <= t.longest() &&
			g.Round(t.awaited()+2*arrival) <= t.longest() {
			return stretch
		}
	}
	return 0
}

// longest is the longest TTL that may be requested.
func (t *trial) longest() time.Duration { return longest(t.g) }

func longest(g backend.Guarantees) time.Duration {
	if g.MaxTTL > 0 {
		return g.MaxTTL
	}
	return backend.MaxTTL
}

// kept returns for how long the store keeps a lease of ttl without contact to the client. A deadline is never further
// away.
func (t *trial) kept(ttl time.Duration) time.Duration {
	if t.g.MaxSilence > 0 {
		return min(ttl, t.g.MaxSilence)
	}
	return ttl
}

// sameDeadline reports whether the deadline of g is still old. If the TTL of g is longer than Guarantees.MaxSilence,
// the deadline moves forward by itself. It then only must not be before old.
func (t *trial) sameDeadline(g *grant, old time.Time) bool {
	now := g.Deadline()
	if t.deadlineSlides(g) {
		return !now.Before(old)
	}
	return now.Equal(old)
}

// deadlineSlides reports whether the deadline of g moves forward by itself.
func (t *trial) deadlineSlides(g *grant) bool { return t.kept(g.ttl) < g.ttl }

// requestKey calls Acquire for a new owner. The lease, if granted, is released at the end of the trial.
func (t *trial) requestKey(
	ctx context.Context, b backend.Backend, key string, ttl time.Duration, wait bool,
) (*grant, error) {
	return t.request(ctx, b, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait})
}

func (t *trial) request(ctx context.Context, b backend.Backend, r backend.Request) (*grant, error) {
	t.mu.Lock()
	t.keyOf[r.Owner] = r.Key
	t.mu.Unlock()
	before := time.Now()
	l, err := b.Acquire(ctx, r)
	after := time.Now()
	if err != nil {
		t.mu.Lock()
		delete(t.keyOf, r.Owner)
		t.mu.Unlock()
		if l != nil {
			t.errorf("Acquire returned a lease and the error %v", err)
		}
		if errors.Is(err, backend.ErrLost) && after.Sub(before) > t.g.Round(r.TTL)/2 {
			t.lateFor(ttlRule, false, "a grant took %v of its TTL of %v to arrive", after.Sub(before), r.TTL)
		}
		return nil, err
	}
	if l == nil {
		t.fatalf("Acquire returned neither a lease nor an error")
	}
	g := &grant{Lease: l, client: b, key: r.Key, owner: r.Owner, ttl: r.TTL, before: before, after: after,
		shared: r.Shared}
	t.mu.Lock()
	t.grants = append(t.grants, g)
	t.mu.Unlock()
	return g, nil
}

// client returns one of the two clients, in turn.
func (t *trial) client(i int) backend.Backend { return []backend.Backend{t.a, t.b}[i%2] }

// A request takes longer than slow only on a busy machine. A client that fails after more than patient has waited for a
// reply. Its own time limit may be that short, for example for the renewal of a short lease.
const (
	slow    = 200 * time.Millisecond
	patient = 20 * time.Millisecond
)

// lateOnTimeout ends the trial as late if err is a client's timeout, for a request begun at begun. A healthy store
// causes such a timeout only on a busy machine. answered also records how long the request took.
func (t *trial) lateOnTimeout(err error, begun time.Time) {
	took := time.Since(begun)
	t.pulse.answered(took)
	for _, answer := range []error{backend.ErrHeld, backend.ErrLost, backend.ErrClosed, backend.ErrInvalid,
		errors.ErrUnsupported} {
		if errors.Is(err, answer) {
			return
		}
	}
	if err != nil && (took > slow || took > patient && errors.Is(err, backend.ErrUnavailable)) && t.ctx.Err() == nil {
		t.lateFor(answerRule, false, "no answer after %v: %v", took, err)
	}
}

// attempt makes a request that does not wait. A timeout ends the trial as late.
func (t *trial) attempt(b backend.Backend, key string, ttl time.Duration) (*grant, error) {
	begun := time.Now()
	g, err := t.requestKey(t.ctx, b, key, ttl, false)
	t.lateOnTimeout(err, begun)
	return g, err
}

// acquire acquires a key that must be free.
func (t *trial) acquire(b backend.Backend, key string, ttl time.Duration) *grant {
	begun := time.Now()
	g, err := t.attempt(b, key, ttl)
	if took := time.Since(begun); errors.Is(err, backend.ErrHeld) && took > slow { // nodes may not have answered in time
		t.lateFor(grantRule, false, "Acquire of a free key: %v after %v", err, took)
	}
	if err != nil {
		t.notGranted("Acquire of a free key", key, err)
	}
	return g
}

// brief acquires a key that must be free. It returns nil if the TTL ran out before the reply arrived.
func (t *trial) brief(b backend.Backend, key string, ttl time.Duration) *grant {
	g := &grant{key: key, owner: backend.NewOwner(), ttl: ttl, before: time.Now()}
	l, err := b.Acquire(t.ctx, backend.Request{Key: key, Owner: g.owner, TTL: ttl})
	t.lateOnTimeout(err, g.before)
	switch {
	case errors.Is(err, backend.ErrLost):
		return nil
	case err != nil:
		t.fatalf("Acquire of a free key for %v: %v, want a lease or ErrLost", ttl, err)
	}
	g.Lease, g.after = l, time.Now()
	return g
}

// refused requests the key that g holds, and fails unless the store refuses.
func (t *trial) refused(b backend.Backend, g *grant) { t.refusedAs(b, g, false) }

// refusedAs is refused for a shared or an exclusive request.
func (t *trial) refusedAs(b backend.Backend, g *grant, shared bool) {
	if !t.refusedOrExpired(b, g, shared) {
		t.lateFor(ttlRule, false, "the holder's lease ended before a second owner was refused")
	}
}

// refusedOrExpired requests the key of g, and reports whether the store refused. It fails if the store granted the key
// before g had ended.
func (t *trial) refusedOrExpired(b backend.Backend, g *grant, shared bool) bool {
	begun := time.Now()
	r := backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: g.ttl, Shared: shared}
	other, err := t.request(t.ctx, b, r)
	t.lateOnTimeout(err, begun)
	switch {
	case errors.Is(err, backend.ErrHeld):
		return true
	case err != nil:
		t.breaksText(refuseRule, "Acquire of a held key: %v, want ErrHeld", err)
	case g.live(other.after):
		t.doubleGrant("a second owner was granted the key %v before the holder's deadline", time.Until(g.Deadline()))
	case !t.within(time.Second, g.Lost()):
		t.breaks(6, "a second owner was granted the key; the holder's lease is past its deadline and Lost not closed")
	}
	return false
}

// refusedFor requests the key of g repeatedly for d, by client b.
func (t *trial) refusedFor(b backend.Backend, g *grant, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(d / 16) {
		t.refused(b, g)
	}
}

// release releases g, which must succeed.
func (t *trial) release(g *grant) {
	deadline, begun := g.Deadline(), time.Now()
	err := g.Release(t.ctx)
	t.lateOnTimeout(err, begun)
	if errors.Is(err, backend.ErrLost) && !time.Now().Before(deadline) {
		t.lateFor(ttlRule, false, "a lease ended before it was released")
	}
	if err != nil {
		t.breaksText(releaseRule, "Release of a live lease: %v", err)
	}
}

// renew renews g, which must be live.
func (t *trial) renew(g *grant, ttl time.Duration) {
	t.renewBy(g, ttl, func() error { return g.Renew(t.ctx, ttl) })
}

// renewInBatch is renew in a batch of one lease. The store must be a BatchRenewer.
func (t *trial) renewInBatch(g *grant, ttl time.Duration) {
	t.renewBy(g, ttl, func() error { return t.batchOfOne(t.ctx, g, ttl) })
}

func (t *trial) renewBy(g *grant, ttl time.Duration, renew func() error) {
	deadline, before := g.Deadline(), time.Now()
	err := renew()
	t.lateOnTimeout(err, before)
	t.lostInTime(err, deadline, before, ttl)
	if err != nil {
		t.breaksText(renewRule, "Renew of a live lease: %v", err)
	}
}

// lostInTime ends the trial as late if a renewal that began at before returned ErrLost, and the lease may indeed have
// expired by now: by the deadline before the renewal, or by the deadline of the renewal.
func (t *trial) lostInTime(err error, deadline, before time.Time, ttl time.Duration) {
	switch now := time.Now(); {
	case !errors.Is(err, backend.ErrLost):
	case !now.Before(deadline):
		t.lateFor(ttlRule, false, "a lease ended before it was renewed")
	case !now.Before(backend.Deadline(before, ttl)):
		t.tooLate("a renewal took %v, for a TTL of %v", now.Sub(before), ttl)
	}
}

// free checks that key is free now: another owner acquires it at once, and releases it.
func (t *trial) free(b backend.Backend, key, when string) *grant {
	g, err := t.attempt(b, key, t.long())
	if err != nil {
		t.notGranted(when+": the key is not free", key, err)
	}
	t.release(g)
	return g
}

// becomesFree waits until b can acquire key, which must succeed within d, and releases it. If the machine or the store
// stood still, a key that becomes free soon after d proves nothing. A key that stays held is a failure.
func (t *trial) becomesFree(b backend.Backend, key string, d time.Duration, when string) {
	var err error
	free := func() bool {
		var g *grant
		g, err = t.attempt(b, key, t.long())
		if err == nil {
			t.release(g)
		} else if !errors.Is(err, backend.ErrHeld) {
			t.breaksText(grantRule, "%s: Acquire: %v", when, err)
		}
		return err == nil
	}
	if t.poll(d, free) {
		return
	}
	refusal := err
	if still := t.stoodStill(); still != "" && t.poll(soon, free) {
		t.lateFor(grantRule, t.machineIsSlow(), "%s: the key did not become free within %v: %v; %s", when, d, refusal, still)
	}
	t.breaksText(grantRule, "%s: the key did not become free within %v: %v", when, d, refusal)
}

// inspect returns the holder of key, as seen by the second client.
func (t *trial) inspect(key string) backend.Holder { return t.inspectBy(t.b, key) }

// inspectBy returns the holder of key, as seen by client b.
func (t *trial) inspectBy(b backend.Backend, key string) backend.Holder {
	begun := time.Now()
	h, err := b.Inspect(t.ctx, key)
	t.lateOnTimeout(err, begun)
	if err != nil {
		t.breaksText(inspectRule, "Inspect: %v", err)
	}
	return h
}

// heldBy checks that g still holds its key, as seen by both clients.
func (t *trial) heldBy(g *grant) {
	t.refused(t.a, g)
	t.refused(t.b, g)
	if t.g.Shared && !g.shared {
		t.refusedAs(t.a, g, true)
	}
	if h := t.inspect(g.key); h.Owner != g.owner && g.live(time.Now()) {
		if shared := t.sharedWith(g.key); shared != "" {
			t.breaks(8, "Inspect says that %q holds the key, want %q%s", h.Owner, g.owner, shared)
		}
		t.breaksText(inspectRule, "Inspect says that %q holds the key, want %q", h.Owner, g.owner)
	}
	if g.gone() && g.live(time.Now()) {
		t.breaks(6, "Lost is closed before the deadline")
	}
}

// expire waits until g has expired, both for its holder and in the store.
func (t *trial) expire(g *grant) {
	if !t.within(t.g.Round(g.ttl)+soon, g.Lost()) {
		t.breaks(6, "Lost is not closed %v after the deadline", time.Since(g.Deadline()))
	}
	t.outlast(t.lastRefusal(g.after, g.ttl))
}
