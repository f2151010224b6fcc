package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// replyGrace is how long an Acquire with a request in progress may outlast its context.
const replyGrace = 100 * time.Millisecond

// An attempt is one call of Acquire: it ends when the key is granted or the call fails.
type attempt struct {
	b     *Backend
	r     backend.Request
	names names
	ttl   time.Duration // as it will be granted

	sent       time.Time                // before the last request
	unanswered bool                     // a request without a reply may have run, or may still run
	queued     bool                     // the server keeps a queue entry, or a late grant, that must be removed
	failed     atomic.Bool              // the attempt has ended without a lease
	lease      atomic.Pointer[kit.Life] // the granted lease, if unanswered
}

// run makes the attempt.
func (a *attempt) run(ctx context.Context) (backend.Lease, error) {
	// An uncontended acquire does not subscribe, so the first request queues only if the subscription exists already. A waiter
	// registers before it queues, because the notification may arrive before the reply.
	var w *waiter
	queue := a.r.Wait && a.b.inbox.ready()
	if queue {
		w = a.b.inbox.add(a.r.Owner)
		defer a.b.inbox.remove(w)
	}
	reply, err := a.try(ctx, queue)
	switch {
	case err != nil:
		return nil, err
	case reply.granted:
		return a.grant(ctx, reply)
	case !a.r.Wait:
		return nil, &backend.HeldError{Holder: reply.holder}
	case w == nil:
		w = a.b.inbox.add(a.r.Owner)
		defer a.b.inbox.remove(w)
	}
	return a.wait(ctx, w, reply)
}

// try requests the key once, and queues the owner if queue is true.
func (a *attempt) try(ctx context.Context, queue bool) (acquireReply, error) {
	b := a.b
	queueing := "0"
	if queue {
		queueing = "1"
	}
	a.sent = time.Now()
	v, unanswered, err := b.eval(ctx, exchange.Request{
		Script:   acquireScript,
		Keys:     []string{a.names.lock, a.names.queue, a.names.fence},
		Args:     []any{a.r.Owner, a.ttl.Milliseconds(), b.channel, queueing},
		Replicas: b.options.MinReplicas,
		Kept:     needsReplicas,
		Grace:    replyGrace,
		Late:     a.lateReply,
	})
	a.unanswered = a.unanswered || unanswered
	if err != nil {
		return acquireReply{}, err
	}
	reply, err := parseAcquire(v)
	a.queued = queue && err == nil && !reply.granted
	return reply, err
}

// grant starts the lease.
func (a *attempt) grant(ctx context.Context, reply acquireReply) (backend.Lease, error) {
	l, err := a.b.leases.Grant(ctx, a.r, kit.Grant{
		Token: reply.token, Sent: a.sent, TTL: a.ttl,
		Data: &leaseData{
			lock: a.names.lock, value: lockValue(reply.token, a.r.Owner), grantedTTL: a.ttl, unanswered: a.unanswered,
		},
	})
	if err != nil {
		// Leases releases the lease, unless Leases is closed.
		a.queued = errors.Is(err, backend.ErrClosed)
		return nil, err
	}
	if a.unanswered {
		a.lease.Store(l)
	}
	return l, nil
}

// cleanUp removes, in the background, anything that a failed attempt may have left on the server.
func (a *attempt) cleanUp() {
	a.failed.Store(true)
	switch {
	case a.unanswered && !a.b.usage.IsClosing():
		a.abandon()
	case a.unanswered, a.queued: // after Close has begun, Leases accepts no more clean-ups
		a.b.usage.Calls.Background(a.removeQueued)
	}
}

// lateReply runs when a request ends after its caller has stopped waiting. The request may have restored what was removed.
func (a *attempt) lateReply() {
	ended := a.failed.Load()
	if l := a.lease.Load(); l != nil { // a later request of this attempt was granted
		ended = l.Data.(*leaseData).released.Load()
		select {
		case <-l.Lost():
			ended = true
		default:
		}
	}
	if ended {
		a.abandon()
	}
}

// abandon removes whatever the server has of the owner, until nothing more can arrive.
func (a *attempt) abandon() { a.b.leases.Abandon(a.r.Key, a.r.Owner, a.ttl) }

// removeQueued removes the owner with one request.
func (a *attempt) removeQueued() {
	ctx, cancel := context.WithTimeout(context.Background(), a.b.options.Timeout)
	defer cancel()
	if _, err := a.b.release(ctx, a.r.Key, lockValue(0, a.r.Owner)); err != nil {
		a.abandon()
	}
}
