package redis

import (
	"context"
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
	ttl   time.Duration // as granted: r.TTL, rounded
	lease *leaseData    // of the lease, once it is granted

	waiter     waiter        // registered with the inbox; nil before
	recheck    time.Duration // how long a waiter pauses after a refusal, without a notification
	sent       time.Time     // read before sending the last request
	unanswered bool          // a request without a reply may have run, or may still run
	queued     bool          // the server keeps a queue entry that must be removed
	notified   bool          // the inbox has notified the attempt since the last refusal
	granted    bool          // Leases cleans up if Grant fails

	// subscription is that from before the last refused request. A newer one would have lost no notification.
	subscription subscription
}

// try requests the key once. It queues the attempt if the attempt is registered with the inbox.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	// An uncontended acquire does not subscribe, so the first request queues only if the subscription exists already. A
	// waiter registers before it queues, because the notification may arrive before the reply.
	var now subscription
	if a.r.Wait {
		if now = a.b.inbox.current(); now.end != nil {
			a.register()
		}
	}
	select {
	case <-a.waiter: // this request makes earlier notifications obsolete
		a.notified = true
	default:
	}
	reply, err := a.request(ctx)
	switch {
	case err != nil:
		return nil, err
	case reply.token > 0:
		return a.grant(ctx, reply.token)
	}
	if reply.added && !a.notified && len(a.waiter) == 0 {
		// The reservation has expired without a notification. The connection of the subscription may be dead, although
		// nothing has closed it. If messages still arrive, this one was lost elsewhere: its publisher may lack the right.
		a.b.inbox.endIfSilent(a.subscription)
	}
	a.queued, a.notified, a.subscription = a.waiter != nil, false, now
	a.recheck = recheckAfter(reply.holder.TTL)
	return nil, &backend.HeldError{Holder: reply.holder}
}

// The last argument of acquireSharedScript describes the earlier requests of the attempt.
const (
	noneBefore       = "0"
	refusedBefore    = "1"
	unansweredBefore = "2"
)

// request sends one acquire request. If the key is taken, and the attempt is registered with the inbox, the server
// queues the owner.
func (a *attempt) request(ctx context.Context) (acquireReply, error) {
	b, names, queue := a.b, a.lease.names, a.waiter != nil
	keys := []string{names.lock, names.queue, names.fence}
	var q exchange.Request
	if a.r.Shared {
		before := noneBefore
		switch {
		case a.unanswered:
			before = unansweredBefore
		case a.queued:
			before = refusedBefore
		}
		q = acquireSharedScript.Request(keys, a.r.Owner, a.ttl.Milliseconds(), b.channel, queue, before)
		q.RepeatArg = unansweredBefore
	} else {
		q = acquireScript.Request(keys, a.r.Owner, a.ttl.Milliseconds(), b.channel, queue)
	}
	q.Replicas, q.NeedsReplicas = b.options.MinReplicas, isGrant
	q.Grace, q.OnLateEnd = replyGrace, a.lateReply
	a.sent = time.Now()
	v, unanswered, err := b.eval(ctx, q)
	a.unanswered = a.unanswered || unanswered
	if err != nil {
		return acquireReply{}, err
	}
	return parseAcquire(v)
}

// grant starts the lease.
func (a *attempt) grant(ctx context.Context, token uint64) (backend.Lease, error) {
	a.granted = true
	a.lease.value = lockValue(token, a.r.Owner)
	l, err := a.b.leases.Grant(ctx, a.r, kit.Grant{
		Token: token, Sent: a.sent, TTL: a.ttl, Unsure: a.unanswered, Data: a.lease,
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// cleanUp removes, in the background, anything that a failed attempt may have left on the server.
func (a *attempt) cleanUp() {
	a.lease.ended.Store(true)
	switch {
	case a.granted:
	case a.unanswered:
		a.abandon()
	case a.queued:
		a.b.leases.Withdraw(a.r, a.ttl)
	}
}

// lateReply runs when a request ends after its caller has stopped waiting. If the attempt has failed by then, or its
// lease was released, lateReply removes the owner again, because the request may have recreated what was removed. The
// owner of a lost lease stays: another process may have resumed the lease.
func (a *attempt) lateReply() {
	if a.lease.ended.Load() {
		a.abandon()
	}
}

// abandon removes, in the background, everything that the server keeps of the owner, until no late request can arrive.
func (a *attempt) abandon() { a.b.leases.Abandon(a.r, a.ttl) }
