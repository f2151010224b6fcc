package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// answerGrace is how much later than its context an Acquire may return that has a request under way.
const answerGrace = 100 * time.Millisecond

// An attempt is one Acquire, from its first request to its grant or end.
type attempt struct {
	b     *Backend
	r     backend.Request
	names names
	ttl   time.Duration // as it will be granted

	sent       time.Time                    // before the last request
	unanswered bool                         // a request may have been carried out, or may yet be, that was not answered
	queued     bool                         // the owner has a place in the queue, or another thing to give up
	over       atomic.Bool                  // it has ended without a lease
	lease      atomic.Pointer[backend.Life] // what it ended with, if unanswered
}

// run makes the attempt.
func (a *attempt) run(ctx context.Context) (backend.Lease, error) {
	// An uncontended acquire does not subscribe, so the first request queues only if that has been done before. Whoever
	// queues listens first: the message may be faster than the answer.
	var w *waiter
	queue := a.r.Wait && a.b.inbox.ready()
	if queue {
		w = a.b.inbox.join(a.r.Owner)
		defer a.b.inbox.part(w)
	}
	ans, err := a.try(ctx, queue)
	switch {
	case err != nil:
		return nil, err
	case ans.granted:
		return a.grant(ctx, ans)
	case !a.r.Wait:
		return nil, &backend.HeldError{Holder: ans.holder}
	case w == nil:
		w = a.b.inbox.join(a.r.Owner)
		defer a.b.inbox.part(w)
	}
	return a.wait(ctx, w, ans)
}

// try asks for the key once, and queues if told to.
func (a *attempt) try(ctx context.Context, queue bool) (answer, error) {
	b := a.b
	queueing := "0"
	if queue {
		queueing = "1"
	}
	watch := b.watches.of(a.r.Key)
	a.sent = time.Now()
	v, unanswered, err := b.eval(ctx, exchange.Request{
		Script:   acquireScript,
		Keys:     []string{a.names.lock, a.names.queue, a.names.fence},
		Args:     []any{a.r.Owner, a.ttl.Milliseconds(), b.told, queueing},
		Replicas: b.options.MinReplicas,
		Kept:     isKept,
		Grace:    answerGrace,
		Late:     a.late,
	})
	a.unanswered = a.unanswered || unanswered
	if err != nil {
		return answer{}, err
	}
	ans, err := parseAcquire(v)
	if watch != nil && err == nil && (ans.granted || !ans.reserved()) {
		b.watches.over(a.r.Key, watch) // whoever has the key hands it on
	}
	a.queued = queue && err == nil && !ans.granted
	return ans, err
}

// grant begins the lease.
func (a *attempt) grant(ctx context.Context, ans answer) (backend.Lease, error) {
	l, err := a.b.leases.Grant(ctx, a.r, backend.Grant{
		Token: ans.token, Sent: a.sent, TTL: a.ttl, Data: &held{lock: a.names.lock, ttl: a.ttl, echo: a.unanswered},
	})
	if err != nil {
		// Leases gives the lease back, unless it is closed.
		a.queued = errors.Is(err, backend.ErrClosed)
		return nil, err
	}
	if a.unanswered {
		a.lease.Store(l)
	}
	return l, nil
}

// end removes, in the background, what the store may keep of an attempt that got no lease.
func (a *attempt) end() {
	a.over.Store(true)
	switch {
	case a.unanswered && !a.b.usage.IsClosing():
		a.abandon()
	case a.unanswered, a.queued: // once closed, Leases takes no more clean-ups
		a.b.usage.Calls.Background(a.leave)
	}
}

// late is run by a request that nobody waits for any more, when it has ended. What has been removed before may be there again.
func (a *attempt) late() {
	over := a.over.Load()
	if l := a.lease.Load(); l != nil { // a later request got it
		over = l.Data.(*held).over.Load()
		select {
		case <-l.Lost():
			over = true
		default:
		}
	}
	if over {
		a.abandon()
	}
}

// abandon removes what may be there of the owner until it is certain that nothing is.
func (a *attempt) abandon() { a.b.leases.Abandon(a.r.Key, a.r.Owner, a.ttl) }

// leave removes with one request what is known to be there.
func (a *attempt) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), a.b.options.Timeout)
	defer cancel()
	if _, err := a.b.release(ctx, a.r.Key, a.r.Owner, 0); err != nil {
		a.abandon()
	}
}
