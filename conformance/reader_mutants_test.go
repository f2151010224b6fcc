package conformance_test

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	readerSetsTTL     = "TTL of a reader is set by a second request"
	readerReleases    = "release of a reader takes the TTL away first"
	readerRenews      = "renewal of a reader takes the TTL away first"
	readerCutRelease  = "cut release of a reader is reported as done"
	readerCutRenewal  = "cut renewal of a reader is reported as done"
	readerCutAttempt  = "cut attempt of a reader is ErrHeld"
	readerAddedAgain  = "renewal of a reader compares, then adds it again"
	readerFromAnswer  = "deadline of a reader that does not wait counts from the answer"
	renewalFromAnswer = "deadline of a renewed reader counts from the answer"
)

// readerMutants are bugs of requests of readers that break in the middle, or whose answers come late.
var readerMutants = []mutant{
	{readerSetsTTL, "KilledInsideAcquire"},
	{readerReleases, "KilledInsideRelease"},
	{readerRenews, "KilledInsideRenew"},
	{readerCutRelease, "CutInsideRelease"},
	{readerCutRenewal, "CutInsideRenew"},
	{readerCutAttempt, "CutInsideAcquire"},
	{readerAddedAgain, "SlowRenewalSparesNext"},
	{readerFromAnswer, "LateAnswerCountsFromSending"},
	{renewalFromAnswer, "LateAnswerCountsFromSending"},
}

// keepsForAnHour makes the lease of a reader end in an hour, in a request of its own, as a bug. The process may be
// killed after that.
func (c *client) keepsForAnHour(key, owner string) {
	_ = c.exchange(context.Background(), func() { c.server.renewReader(key, owner, time.Hour) })
	time.Sleep(time.Millisecond) // sleeps: the process may be killed meanwhile
}

// readerInTwoSteps sets the TTL of a reader by a second request, as a bug.
func (c *client) readerInTwoSteps(key, owner string, ttl time.Duration) {
	c.keepsForAnHour(key, owner)
	_ = c.exchange(context.Background(), func() { c.server.renewReader(key, owner, ttl) })
}

// addsReader renews the reader l by two requests, of which the second adds l if it is missing, as a bug. It reports
// whether it did.
func (q requests) addsReader(ctx context.Context, l *kit.Life, ttl time.Duration) (done bool, err error) {
	c, s := q.c, q.c.server
	if !l.Shared() || !c.is(readerAddedAgain) {
		return false, nil
	}
	var held bool
	if err := c.do(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		key := s.name(l.Key())
		e := s.entryLocked(key)
		s.expireLocked(key, e, time.Now())
		held = e.reader(l.Owner()) != nil
	}); err != nil {
		return true, err
	}
	if !held {
		return true, backend.ErrLost
	}
	return true, c.do(ctx, func() {
		if s.renewReader(l.Key(), l.Owner(), ttl) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		key := s.name(l.Key())
		s.enterLocked(key, s.entryLocked(key), backend.Request{Key: l.Key(), Owner: l.Owner(), TTL: ttl, Shared: true}, c,
			time.Now())
	})
}

// cutReader returns the error of a request of a reader that failed with err, with the bug that cut requests are
// reported as done.
func (c *client) cutReader(shared bool, err error, bug string) error {
	if shared && errors.Is(err, errReset) && c.is(bug) {
		return nil
	}
	return err
}
