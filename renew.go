package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/alarm"
)

const (
	batchSize = 1024 // leases in one request, where the store can

	// How many requests there may be at once. They are many, because those that hang must not hold up the others.
	batchWorkers = 32
	soloWorkers  = 128 // where each lease is a request of its own

	retryLeast = 5 * time.Millisecond // between attempts that fail, however near the deadline is
)

var errUnanswered = errors.New("the store gave no answer for this lease")

func newRenewer(l *Locker) *renewer {
	r := &renewer{locker: l, size: 1, most: soloWorkers}
	if b, ok := l.backend.(backend.BatchRenewer); ok {
		r.batch, r.size, r.most = b, batchSize, batchWorkers
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.clock, r.cancel = alarm.New[*tenure](func() { r.fire(ctx) }), cancel
	return r
}

func (r *renewer) close() {
	r.mu.Lock()
	r.closed = true
	r.clock.Stop()
	r.mu.Unlock()
	r.cancel()
	r.workers.Wait()
}

// add begins to renew t, which has so much left.
func (r *renewer) add(t *tenure, now time.Time, left time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.unrenewed = false
	r.putLocked(t, r.nextLocked(now, left))
}

// again moves the next renewal of t, if it is renewed at all, to where its new deadline wants it.
func (r *renewer) again(t *tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock.Remove(&t.renewal)
	r.soonerLocked(t)
}

// sooner is again for a deadline that may have moved nearer, and not away: no renewal is put off.
func (r *renewer) sooner(t *tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.soonerLocked(t)
}

func (r *renewer) soonerLocked(t *tenure) {
	now := time.Now()
	r.putLocked(t, r.nextLocked(now, t.lease.Deadline().Sub(now)))
}

// renews reports whether t is renewed automatically.
func (r *renewer) renews(t *tenure) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !t.unrenewed
}

// remove ends the renewal of t. One that is under way goes on, as tenure.renewals says, but t does not come back.
func (r *renewer) remove(t *tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.unrenewed = true
	r.clock.Remove(&t.renewal)
}

// nextLocked is when a lease is to be renewed that has so much left: when a third of it has passed, less a random part,
// so that leases that began together drift apart. Where the store renews many at once they do so by as many as go into
// one request.
func (r *renewer) nextLocked(now time.Time, left time.Duration) time.Time {
	third := left / 3
	apart := third / 8
	latest := now.Add(third)
	if r.joined < r.size && !r.group.After(latest) && r.group.After(latest.Add(-apart)) {
		r.joined++
		return r.group
	}
	r.group, r.joined = latest.Add(-jitter(apart)), 1
	return r.group
}

// attemptTime is how long one attempt may take when left is left of the lease: one that hangs must leave time for
// another.
func attemptTime(left time.Duration) time.Duration { return max(left/3, time.Millisecond) }

func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// putLocked has t renewed at a time, or sooner if it is to be already.
func (r *renewer) putLocked(t *tenure, at time.Time) {
	if t.unrenewed || r.closed || t.renewal.Set() && !at.Before(t.renewal.At()) {
		return
	}
	r.clock.Set(&t.renewal, at)
	r.clock.Arm()
}

func (r *renewer) fire(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock.Woken()
	r.goOnLocked(ctx)
}

// goOnLocked starts a worker for what is due, and else sets the timer. If all are busy, the first that has finished
// goes on.
func (r *renewer) goOnLocked(ctx context.Context) {
	switch {
	case r.clock.FirstDue(time.Now()) == nil:
		r.clock.Arm()
	case r.working < r.most:
		r.working++
		r.workers.Go(func() { r.work(ctx) })
	}
}

func (r *renewer) work(ctx context.Context) {
	for {
		r.mu.Lock()
		due, shortest := r.takeLocked()
		if len(due) == 0 {
			r.working--
		}
		r.goOnLocked(ctx)
		r.mu.Unlock()
		if len(due) == 0 {
			return
		}
		r.renew(ctx, due, shortest)
	}
}

// A job is a tenure whose lease a worker renews, and when the renewal was due. Another worker may get the same tenure
// before this one has finished.
type job struct {
	tenure *tenure
	due    time.Time
}

// takeLocked takes what is due, and where the store renews many at once also what will be soon: fewer, larger requests.
// Leases that have much more or less time left than the first are left to another worker: a request has as long as the
// shortest of them allows, which is what one of them has left.
func (r *renewer) takeLocked() (due []job, shortest time.Duration) {
	now := time.Now()
	if r.clock.FirstDue(now) == nil {
		return nil, 0
	}
	due = make([]job, 0, min(r.size, r.clock.Len()))
	var others []*alarm.Entry[*tenure]
	var first time.Duration
	for len(due) < r.size && len(others) < r.size {
		e := r.clock.First()
		if e == nil {
			break
		}
		left := e.Item.lease.Deadline().Sub(now)
		if ahead := e.At().Sub(now); ahead > 0 && (r.size == 1 || ahead > left/16) {
			break
		}
		r.clock.Remove(e)
		if len(due) == 0 {
			first, shortest = left, left
		} else if left > 4*first || first > 4*left {
			others = append(others, e)
			continue
		}
		due = append(due, job{e.Item, e.At()})
		e.Item.renewals.Add(1)
		shortest = min(shortest, left)
	}
	for _, e := range others {
		r.clock.Set(e, e.At())
	}
	return due, shortest
}

// renew makes one request for what is due, or one each, and says when to come again.
func (r *renewer) renew(closing context.Context, due []job, shortest time.Duration) {
	renewals := make([]backend.Renewal, 0, len(due))
	requested := due[:0]
	for _, j := range due {
		t := j.tenure
		t.mu.Lock()
		ttl, ok := t.renewToLocked(t.ttl)
		t.mu.Unlock()
		if !ok {
			t.renewals.Add(-1)
			continue // its maximum hold: the deadline that it has is its last
		}
		renewals = append(renewals, backend.Renewal{Lease: t.lease, TTL: ttl})
		requested = append(requested, j)
	}
	if len(renewals) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(closing, attemptTime(shortest))
	begun := time.Now()
	var errs []error
	if r.batch != nil {
		errs = r.batch.RenewBatch(ctx, renewals)
		for len(errs) < len(renewals) { // a stranger's store that breaks the contract
			errs = append(errs, errUnanswered)
		}
	} else {
		errs = []error{renewals[0].Lease.Renew(ctx, renewals[0].TTL)}
	}
	cancel()
	now := time.Now()
	failures := r.putBack(requested, errs, begun, now)
	if logger := r.locker.defaults.logger; len(failures) > 0 && closing.Err() == nil &&
		logger.Enabled(closing, slog.LevelWarn) {
		go func() { // a log that blocks must not keep leases from being renewed
			for _, f := range failures {
				logger.Warn("renewal: outcome unknown, trying again", "key", f.tenure.gate.key, "backend", r.locker.name,
					"owner", f.tenure.owner, "left", f.left, "error", f.err)
			}
		}()
	}
	if r.locker.traces.renewal != nil {
		for i, j := range requested {
			if !errors.Is(errs[i], ErrLost) || !r.released(j.tenure) {
				r.locker.traceRenewal(j.tenure, j.due, begun, now.Sub(begun), errs[i])
			}
		}
	}
}

// A failure is a renewal whose outcome is unknown.
type failure struct {
	tenure *tenure
	left   time.Duration // of the lease
	err    error
}

// putBack schedules the next renewals after attempts that began at begun and ended with errs. Other workers may then
// take the same holds. putBack replaces an error that means only that an attempt's time was over.
func (r *renewer) putBack(jobs []job, errs []error, begun, now time.Time) (failures []failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, j := range jobs {
		t := j.tenure
		errs[i] = r.causeLocked(t, errs[i], begun, now)
		err := errs[i]
		t.renewals.Add(-1)
		switch left := t.lease.Deadline().Sub(now); {
		case errors.Is(err, ErrLost), errors.Is(err, ErrClosed), left <= 0: // the lease itself notifies its holder
		case err != nil:
			after := min(left/8, time.Second)
			r.putLocked(t, now.Add(max(after-jitter(after/2), retryLeast)))
			failures = append(failures, failure{t, left, err})
		case t.renewal.Set(): // its terms have changed meanwhile, and this was on the old ones: it may have come last
			r.putLocked(t, now)
		default:
			r.putLocked(t, r.nextLocked(now, left))
		}
	}
	return failures
}

// causeLocked returns err of an attempt to renew t, or the cause if only the attempt's own time was over: the store
// does not answer.
func (r *renewer) causeLocked(t *tenure, err error, begun, now time.Time) error {
	if !kit.IsContextError(err) || r.closed {
		t.silent = 0
		return err
	}
	if t.silent == 0 {
		t.silent = begun.Sub(t.granted)
	}
	return fmt.Errorf("%w: no answer for %v", ErrUnavailable, (now.Sub(t.granted) - t.silent).Round(time.Millisecond))
}

// released reports whether the holder gave t up before it was lost: then a renewal under way has not failed.
func (r *renewer) released(t *tenure) bool {
	r.mu.Lock()
	left := t.unrenewed
	r.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return left && t.phase != lost
}

// renewToLocked is the TTL to ask for where ttl is wanted: what the store makes of it ends within the maximum hold. Not
// ok if the lease has all that it may get.
func (t *tenure) renewToLocked(ttl time.Duration) (asked time.Duration, ok bool) {
	g, left := &t.locker.guarantees, t.until-t.age()
	if t.until == 0 || g.Round(ttl) <= left {
		return ttl, true
	}
	asked = min(ttl, left)
	asked -= asked % max(g.Granularity, 1)
	if asked <= 0 || asked < g.MinTTL {
		return 0, false
	}
	gained := backend.Deadline(time.Now(), asked).Sub(t.lease.Deadline())
	return asked, gained > backend.Margin(asked)
}

// traceRenewal reports an attempt to renew t that was due, and began.
func (l *Locker) traceRenewal(t *tenure, due, begun time.Time, took time.Duration, err error) {
	l.traces.renewal.TraceRenewal(RenewalEnd{
		Backend: l.name, Key: t.gate.key, Owner: t.owner, Shared: t.gate.shared,
		Late: max(0, begun.Sub(due)), Took: took, Err: err,
	})
}
