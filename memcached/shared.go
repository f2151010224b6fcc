package memcached

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/internal/calls"
)

// shared is a client of the application's. It does not end a request when a context ends: so requests run on goroutines of
// their own, and the client's Timeout ends those that nobody waits for any more.
type shared struct {
	client *memcache.Client
	calls  calls.Calls
}

// do implements transport.
func (s *shared) do(ctx context.Context, end time.Time, late func(), f func(c *memcache.Client) error) error {
	s.calls.Join()
	var settled atomic.Bool // by the one who comes first: the answer, or the one who gives up
	answer := make(chan error, 1)
	go func() {
		defer s.calls.End()
		err := f(s.client)
		taken := settled.CompareAndSwap(false, true)
		answer <- err
		if !taken && late != nil {
			late()
		}
	}()
	t := time.NewTimer(time.Until(end))
	defer t.Stop()
	select {
	case err := <-answer:
		return err
	case <-t.C:
	case <-ctx.Done():
		t.Reset(min(answerGrace, time.Until(end)))
		select {
		case err := <-answer:
			return err
		case <-t.C:
		}
	}
	if !settled.CompareAndSwap(false, true) {
		return <-answer
	}
	return errNoAnswer
}

// close implements transport.
func (s *shared) close() { s.calls.Drain(closeGrace) }
