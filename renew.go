package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/alarm"
)

const (
	batchSize = 1024 // leases in one request, if the store can renew a batch

	// The maximum number of concurrent requests. It is high, because requests that hang must not hold up the others.
	batchWorkers = 32
	soloWorkers  = 128 // if each lease needs a request of its own

	minRetryPause = 5 * time.Millisecond // after a failed attempt, even if the deadline is near
)

func newRenewer(l *Locker) *renewer {
	r := &renewer{locker: l, request: renewOne, size: 1, maxWorkers: soloWorkers}
	if b, ok := l.backend.(backend.BatchRenewer); ok {
		r.request, r.size, r.maxWorkers = b.RenewBatch, batchSize, batchWorkers
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.clock, r.cancel = alarm.New[*tenure](func() { r.fire(ctx) }), cancel
	return r
}

// renewOne implements backend.BatchRenewer.RenewBatch for a single lease of any store.
func renewOne(ctx context.Context, renewals []backend.Renewal) []error {
	return []error{renewals[0].Lease.Renew(ctx, renewals[0].TTL)}
}

func (r *renewer) close() {
	r.mu.Lock()
	r.clock.Stop()
	r.mu.Unlock()
	r.cancel()
	r.workers.Wait()
}

// schedule schedules the next renewal of t, if t is renewed automatically. left is the time until its deadline. A
// renewal that is already scheduled is never postponed.
func (r *renewer) schedule(t *tenure, now time.Time, left time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scheduleLocked(t, r.nextLocked(now, left))
}

// remove ends the automatic renewal of t. A renewal under way continues, and tenure.pendingRenewals counts it, but t is
// not scheduled again.
func (r *renewer) remove(t *tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.renewed.Store(false)
	r.clock.Remove(&t.renewal)
}

// nextLocked returns when to renew a lease. left is the time until its deadline. The renewal is due after a third of
// that time, less a random part, so that leases that began together drift apart. If the store renews batches, groups
// that fit into one request stay together.
func (r *renewer) nextLocked(now time.Time, left time.Duration) time.Time {
	third := left / 3
	spread := third / 8
	latest := now.Add(third)
	if r.joined < r.size && !r.group.After(latest) && r.group.After(latest.Add(-spread)) {
		r.joined++
		return r.group
	}
	r.group, r.joined = latest.Add(-jitter(spread)), 1
	return r.group
}

// attemptTime returns how long one attempt may take. left is the time until the deadline. An attempt that hangs must
// leave time for another attempt.
func attemptTime(left time.Duration) time.Duration { return max(left/3, time.Millisecond) }

// jitter returns a random time below d, or 0 if d is not positive.
func jitter(d time.Duration) time.Duration { return rand.N(max(d, 1)) }

// scheduleLocked schedules the renewal of t at the given time, unless it is already scheduled earlier.
func (r *renewer) scheduleLocked(t *tenure, at time.Time) {
	if !t.renewed.Load() || r.locker.closed.Load() || t.renewal.Set() && !at.Before(t.renewal.At()) {
		return
	}
	r.clock.Set(&t.renewal, at)
	r.clock.Arm()
}

func (r *renewer) fire(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock.Woken()
	r.startWorkersLocked(ctx)
}

// startWorkersLocked starts a worker for each request that is due, and sets the timer for the next. If all workers are
// busy, the first to finish continues.
func (r *renewer) startWorkersLocked(ctx context.Context) {
	for r.working < r.maxWorkers {
		due, shortest := r.popDueLocked()
		if len(due) == 0 {
			r.clock.Arm()
			return
		}
		r.working++
		r.workers.Go(func() {
			r.renew(ctx, due, shortest)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.working--
			r.startWorkersLocked(ctx)
		})
	}
}

// A job is a tenure whose lease a worker renews to ttl, and the time when the renewal was due. Another worker may get
// the same tenure before this worker has finished.
type job struct {
	tenure *tenure
	ttl    time.Duration
	due    time.Time
}

// popDueLocked removes renewals that are due from the clock, and returns those to request, as many as fit in one
// request. If the store renews batches, it also returns renewals that will be due soon, which makes fewer, larger
// requests. It leaves leases with much more or less remaining time than the first to another request, because the
// shortest remaining time limits the whole request. shortest is that time.
func (r *renewer) popDueLocked() (due []job, shortest time.Duration) {
	now := time.Now()
	var others []*alarm.Entry[*tenure]
	var first time.Duration // the remaining time of the first lease
	for e := r.clock.First(); e != nil && len(due) < r.size && len(others) < r.size; e = r.clock.First() {
		t := e.Item
		left := t.lease.Deadline().Sub(now)
		if ahead := e.At().Sub(now); ahead > 0 && (len(due) == 0 || ahead > left/16) {
			break
		}
		r.clock.Remove(e)
		t.mu.Lock()
		ttl, ok := t.ttlToRequestLocked(t.ttl)
		t.mu.Unlock()
		switch {
		case !ok: // the lease has reached its maximum hold: its deadline is final
			continue
		case len(due) == 0:
			first, shortest = left, left
		case left > 4*first || first > 4*left:
			others = append(others, e)
			continue
		}
		due = append(due, job{t, ttl, e.At()})
		t.pendingRenewals.Add(1)
		shortest = min(shortest, left)
	}
	for _, e := range others {
		r.clock.Set(e, e.At())
	}
	return due, shortest
}

// renew makes one request for the leases of due, a batch or a single lease, and schedules their next renewals.
func (r *renewer) renew(closing context.Context, due []job, shortest time.Duration) {
	renewals := make([]backend.Renewal, len(due))
	for i, j := range due {
		renewals[i] = backend.Renewal{Lease: j.tenure.lease, TTL: j.ttl}
	}
	ctx, cancel := context.WithTimeout(closing, attemptTime(shortest))
	begun := time.Now()
	errs := r.request(ctx, renewals)
	for len(errs) < len(renewals) { // a third-party store may break the contract
		errs = append(errs, fmt.Errorf("%w: no result for this lease", ErrUnavailable))
	}
	cancel()
	now := time.Now()
	warnings := r.rescheduleAll(due, errs, begun, now)
	if len(warnings) > 0 && closing.Err() == nil {
		go func() { // a logger that blocks must not delay renewals
			for _, warn := range warnings {
				warn()
			}
		}()
	}
	r.trace(due, errs, begun, now)
}

// rescheduleAll schedules the next renewals after attempts that began at begun and ended with errs. Other workers may
// then get the same tenures. If an error only means that an attempt has timed out, rescheduleAll replaces it in errs.
func (r *renewer) rescheduleAll(jobs []job, errs []error, begun, now time.Time) (warnings []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, j := range jobs {
		t := j.tenure
		errs[i] = r.causeLocked(t, errs[i], begun, now)
		err := errs[i]
		t.renewalEnded(err)
		switch left := t.lease.Deadline().Sub(now); {
		case isLoss(err), left <= 0: // the lease itself notifies its holder
		case err != nil:
			after := min(left/8, time.Second)
			r.scheduleLocked(t, now.Add(max(after-jitter(after/2), minRetryPause)))
			warnings = append(warnings, func() {
				t.warn("renewal: outcome unknown, trying again", "left", left, "error", err)
			})
		case t.renewal.Set(): // the terms changed meanwhile; this request, on the old terms, may have reached the store last
			r.scheduleLocked(t, now)
		default:
			r.scheduleLocked(t, r.nextLocked(now, left))
		}
	}
	return warnings
}

// causeLocked returns err, the error of an attempt to renew t. If err only means that the attempt has timed out,
// causeLocked returns ErrUnavailable instead: the store does not answer.
func (r *renewer) causeLocked(t *tenure, err error, begun, now time.Time) error {
	if !kit.IsContextError(err) || r.locker.closed.Load() {
		t.silentAge = 0
		return err
	}
	if t.silentAge == 0 {
		t.silentAge = begun.Sub(t.granted)
	}
	return fmt.Errorf("%w: no answer for %v", ErrUnavailable, (now.Sub(t.granted) - t.silentAge).Round(time.Millisecond))
}

// renewalEnded counts down t.pendingRenewals after a renewal that ended with err, unless it may still reach the store.
func (t *tenure) renewalEnded(err error) {
	if !isUnknown(err) {
		t.pendingRenewals.Add(-1)
	}
}

// isUnknown reports whether err, the error of a renewal, means that the outcome is unknown.
func isUnknown(err error) bool { return err != nil && !errors.Is(err, ErrLost) && !kit.Definite(err) }

// ttlToRequestLocked returns the TTL to request so that the lease gets ttl, but no more than its maximum hold, even
// after the store has rounded the TTL. ok is false if the lease already has the longest time that it may get.
func (t *tenure) ttlToRequestLocked(ttl time.Duration) (requested time.Duration, ok bool) {
	g, left := &t.locker.guarantees, t.maxAge-t.age()
	if g.Round(ttl) <= left {
		return ttl, true
	}
	requested = min(ttl, left).Truncate(g.Granularity)
	gained := backend.Deadline(time.Now(), requested).Sub(t.lease.Deadline())
	return requested, requested >= max(g.MinTTL, 1) && gained > backend.Margin(requested)
}

// trace reports attempts that began at begun and ended with errs to the Tracer, if it is a RenewalTracer. An attempt
// that found the lease ended has not failed if the holder has released the lease meanwhile.
func (r *renewer) trace(jobs []job, errs []error, begun, now time.Time) {
	tracer, ok := r.locker.defaults.tracer.(RenewalTracer)
	if !ok {
		return
	}
	for i, j := range jobs {
		if t := j.tenure; !errors.Is(errs[i], ErrLost) || !t.is(released) {
			tracer.TraceRenewal(RenewalEnd{
				Backend: r.locker.name, Key: t.gate.key, Owner: t.owner, Shared: t.gate.shared,
				Late: max(0, begun.Sub(j.due)), Took: now.Sub(begun), Err: errs[i],
			})
		}
	}
}
