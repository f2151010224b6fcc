package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// probe checks, before the first check runs, that the store grants keys. It then limits three numbers to what the store
// can hold: leases per client, leases per large batch, and parallel checks.
func (s *suite) probe(b backend.Backend, o Options) error {
	// Any other error is a fault of the store. The checks report it.
	if err := s.admitted(b, o.NotReady); errors.Is(err, backend.ErrUnavailable) || kit.IsContextError(err) {
		return err
	}
	s.large = min(s.h.Many, largeBatch)
	if s.h.Many <= 0 {
		s.h.Many, s.large = mostMany, largeBatch
	}
	if s.g.MaxLeases > 0 { // leave room for as many waiters, and for attempts
		most := max(2, s.g.MaxLeases/2-2)
		s.h.Many, s.large = min(s.h.Many, most), min(s.large, most)
	}
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = defaultParallel(s.g)
	}
	c, ok := b.(backend.Capacity)
	if !ok {
		s.slots = make(chan struct{}, parallel)
		return nil
	}
	room, err := c.Capacity(s.ctx)
	if err != nil {
		return fmt.Errorf("conformance: capacity: %w", err)
	}
	const (
		clients = 2  // per check, each with Many leases
		more    = 16 // further leases per check
	)
	if room > 0 {
		s.h.Many = min(s.h.Many, (room-more)/clients)
		s.large = min(s.large, s.h.Many)
		if s.h.Many < leastMany {
			return fmt.Errorf("%w: conformance: the store has room for %d leases, of all clients together, and the "+
				"suite needs %d",
				backend.ErrUnavailable, room, clients*leastMany+more)
		}
		if o.Parallel <= 0 {
			parallel = max(1, min(parallel, room/(clients*s.h.Many+more)))
		}
	}
	s.slots = make(chan struct{}, parallel)
	return nil
}

const (
	mostMany   = 256
	leastMany  = 8
	largeBatch = 1100 // more than the 1024 that package lock renews at once

	admission = 10 * time.Second // time limit for granting a fresh key
	readiness = 15 * time.Minute // time limit for a store that reports that it is not ready yet
)

// admitted returns when the store has granted a fresh key. If the first attempt fails, it retries for up to admission,
// or for up to readiness if the store reports that it is not ready. It passes that report to notReady, which may be
// nil.
func (s *suite) admitted(b backend.Backend, notReady func(error)) error {
	err := s.tryGrant(b, admission, false)
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	limit := admission
	if r, ok := b.(backend.Readiness); ok {
		if why := r.NotReady(); why != nil {
			if notReady != nil {
				notReady(why)
			}
			limit = readiness
		}
	}
	for end := time.Now().Add(limit); ; time.Sleep(stall) {
		// Repeat the attempt, because the store may have a shorter time limit of its own.
		if err = s.tryGrant(b, time.Until(end), true); !errors.Is(err, backend.ErrUnavailable) || !time.Now().Before(end) ||
			s.ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("conformance: the store grants nothing: Acquire of a fresh key: %w", err)
	}
	return nil
}

// tryGrant acquires and releases a fresh key.
func (s *suite) tryGrant(b backend.Backend, limit time.Duration, wait bool) error {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	ttl := min(s.g.Round(10*time.Second), longest(s.g))
	err := bounded(max(limit, 0)+soon, func() error {
		l, err := b.Acquire(ctx, backend.Request{Key: newKey(), Owner: backend.NewOwner(), TTL: ttl, Wait: wait})
		if err == nil {
			_ = l.Release(ctx) // the checks report a Release that fails
		}
		return err
	})
	if errors.Is(err, errHangs) {
		return fmt.Errorf("%w (%s): %w", backend.ErrUnavailable, ruleTexts[4], err)
	}
	return err
}

// errHangs reports that a call did not return in time.
var errHangs = errors.New("not returned")

// bounded runs f and returns its error. If f does not return within d, bounded abandons f and returns errHangs. A panic
// of f becomes an error.
func bounded(d time.Duration, f func() error) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		err = f()
	}()
	if !within(d, done) {
		return fmt.Errorf("%w after %v", errHangs, d)
	}
	return err
}

// open opens a client. It allows as much time as for a check.
func (s *suite) open() (backend.Backend, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	// Not by a deadline of ctx, because the client may use ctx for as long as it lives.
	late := time.AfterFunc(s.timeout, cancel)
	var b backend.Backend
	err := bounded(s.timeout+soon, func() (err error) { b, err = s.h.Open(ctx); return err })
	if !late.Stop() && err != nil {
		return nil, fmt.Errorf("no client within %v: %v", s.timeout, err)
	}
	return b, err
}

// closes closes b. It allows as much time as checks do.
func (s *suite) closes(b backend.Backend) error { return bounded(2*soon, b.Close) }

// whyUnusable opens a client and acquires a fresh key. It returns nil, or why the store can no longer be used.
func (s *suite) whyUnusable() error {
	b, err := s.open()
	if err != nil {
		return fmt.Errorf("no client can be opened any more: %w", err)
	}
	err = s.admitted(b, nil)
	if e := s.closes(b); e != nil {
		err = errors.Join(err, fmt.Errorf("a client cannot be closed any more: %w", e))
	}
	return err
}

// recovers waits until the store has answered promptly several times in a row. Another attempt at the check would prove
// nothing before that. recovers gives up after a while. The larger stretch is, the more prompt answers it requires and
// the longer it waits.
func (s *suite) recovers(stretch int) {
	b, err := s.open()
	if err != nil {
		return
	}
	defer s.closes(b)
	if s.admitted(b, nil) != nil {
		return
	}
	const (
		enough = 3
		most   = 2 * time.Second
	)
	if s.budget.isWrong() {
		stretch = 1
	}
	end := time.Now().Add(most * time.Duration(stretch))
	for prompt := 0; prompt < enough*stretch && time.Now().Before(end) && s.ctx.Err() == nil; time.Sleep(stall) {
		begun := time.Now()
		if prompt++; s.tryGrant(b, slow, false) != nil || time.Since(begun) > slow {
			prompt = 0
		}
	}
}

// checkUsable checks, after a failed check, whether the store still grants. If it does not, the remaining checks would
// fail too.
func (s *suite) checkUsable() {
	s.unusableLock <- struct{}{}
	defer func() { <-s.unusableLock }()
	if s.unusable == nil {
		s.unusable = s.whyUnusable()
	}
}

// stopReason returns why the remaining checks are skipped, or nil.
func (s *suite) stopReason() error {
	s.unusableLock <- struct{}{}
	defer func() { <-s.unusableLock }()
	if s.unusable != nil {
		return s.unusable
	}
	return s.budget.endReason()
}
