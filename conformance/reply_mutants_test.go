package conformance_test

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// replyMutants are bugs that appear if replies are lost, held or late.
var replyMutants = []mutant{
	{"attempt whose connection broke is not cleaned up", "LostAcquireReplyLeavesNothing"},
	{"attempt sent again meets its own ghost", "LostAcquireReplyLeavesNothing"},
	{"broken connection ends the wait", "LostWaitReplyIsOutlived"},
	{"broken connection parks the waiter", "LostWaitReplyIsOutlived"},
	{"renewal without an answer ends the lease", "LostRenewReplyKeepsLease"},
	{"release sent again is ErrLost", "LostReleaseReplyIsNoLoss"},
	{"refusal that is not heard of leaves a place in the queue", "LostRefusalChangesNothing"},
	{"cancelled request is not cleaned up", "LateGrantIsReleased"},
	{"deadline counts from the answer", "LateAnswerCountsFromSending"},
	{"hung Renew keeps Lost open", "LateAnswerRevivesNothing"},
	{"late answer revives the lease", "LateAnswerRevivesNothing"},
	{"no exclusion", "LateAcquireLeavesNothing"},
	{"clean-up gives up when the store cannot be reached", "LateAcquireLeavesNothing"},
	{"renew ignores the owner", "LateRenewSparesNext"},
	{"unanswered shorter renewal is not counted", "LateShorterRenewIsCounted"},
	{"release ignores the owner", "LateReleaseSparesNext"},
	{"release sent again is done, whatever it finds", "LateReleaseSparesNext"},
	{"release ignores the owner", "SlowReleaseSparesNext"},
	{"release compares, then frees", "SlowReleaseSparesNext"},
	{"deadline counts from the answer", "SlowLinkServes"},
}

// unanswered cleans up after an attempt that got no reply.
func (c *client) unanswered(ctx context.Context, r backend.Request) {
	if c.is("attempt without an answer leaves a goroutine until Close") {
		go func() { <-c.done }()
	}
	switch {
	case c.is("attempt whose connection broke is not cleaned up") && ctx.Err() == nil, c.keepsTimedOut(ctx),
		ctx.Err() != nil && c.is(stuckStays) && c.isStranded(),
		c.abandonsBriefly(r, "an attempt"), c.abandonsLate(r),
		r.Shared && c.abandonsBriefly(r, "a shared attempt"):
		return
	case c.is("refusal that is not heard of leaves a place in the queue"):
		r.Wait = true
		c.server.acquire(c, r)
		return
	case c.is("clean-up gives up when the store cannot be reached"):
		short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if c.do(short, func() {}) != nil {
			return
		}
	}
	c.abandon(r)
}

// An ioTimeout imitates the error of package net for a deadline that has passed.
type ioTimeout struct{}

func (ioTimeout) Error() string        { return "i/o timeout" }
func (ioTimeout) Is(target error) bool { return target == context.DeadlineExceeded }

// reportedError returns the error that an attempt reports for err.
func (c *client) reportedError(ctx context.Context, err error) error {
	if c.is("hanging store is reported as busy") && ctx.Err() != nil {
		return kit.ContextError(ctx, backend.ErrHeld)
	}
	if c.is("context's end is reported as i/o timeout") {
		return ioTimeout{}
	}
	return err
}

// late renews at the server without informing b.Life, which would count a request without a reply. The store is slow.
func (b *bent) late(ctx context.Context, ttl time.Duration) error {
	return b.c.do(ctx, func() {
		time.Sleep(50 * time.Millisecond) // sleeps: the store is slow
		b.c.server.renew(b.Key(), b.Owner(), b.c, ttl)
	})
}
