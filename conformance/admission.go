package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// probe finds out, before the first check, whether the store grants at all, and how many leases it can hold.
func (s *suite) probe(b backend.Backend, o Options) error {
	// Another error is the store's own fault, which the checks report.
	if err := s.admitted(b, o.NotReady); errors.Is(err, backend.ErrUnavailable) || kit.IsContextError(err) {
		return err
	}
	s.large = min(s.h.Many, largeBatch)
	if s.h.Many <= 0 {
		s.h.Many, s.large = mostMany, largeBatch
	}
	if s.g.MaxLeases > 0 { // half of them may wait, and attempts beside them need room, too
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
		clients = 2  // of a check, with Many leases each
		more    = 16 // that checks have besides
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

	admission = 10 * time.Second // for a fresh key, by a store that says that it can grant
	readiness = 15 * time.Minute // for a store to become able to grant that says that it is not
)

// admitted returns when the store has granted a fresh key. It waits once for a store that reports that it cannot grant
// yet.
func (s *suite) admitted(b backend.Backend, notReady func(error)) error {
	err := s.granted(b, admission, false)
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
		// A limit of the store's own may be shorter.
		if err = s.granted(b, time.Until(end), true); !errors.Is(err, backend.ErrUnavailable) || !time.Now().Before(end) ||
			s.ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("conformance: the store grants nothing: Acquire of a fresh key: %w", err)
	}
	return nil
}

// granted acquires and releases a fresh key.
func (s *suite) granted(b backend.Backend, limit time.Duration, wait bool) error {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	ttl := min(s.g.Round(10*time.Second), longest(s.g))
	err := bounded(max(limit, 0)+soon, func() error {
		l, err := b.Acquire(ctx, backend.Request{Key: newKey(), Owner: backend.NewOwner(), TTL: ttl, Wait: wait})
		if err == nil {
			_ = l.Release(ctx) // the checks report what is wrong with the lease
		}
		return err
	})
	if errors.Is(err, errHangs) {
		return fmt.Errorf("%w (%s): %w", backend.ErrUnavailable, ruleTexts[4], err)
	}
	return err
}

// errHangs is the error of a call that does not return.
var errHangs = errors.New("not returned")

// bounded returns the error of f. If f has not returned after d, it is left behind and the error is errHangs. A panic
// is an error too.
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

// open opens a client, which may take as long as a check.
func (s *suite) open() (backend.Backend, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	late := time.AfterFunc(s.timeout, cancel) // no deadline of ctx: a client may live by that
	var b backend.Backend
	err := bounded(s.timeout+soon, func() (err error) { b, err = s.h.Open(ctx); return err })
	if !late.Stop() && err != nil {
		return nil, fmt.Errorf("no client within %v: %v", s.timeout, err)
	}
	return b, err
}

// closes closes b, which may take as long as in checks.
func (s *suite) closes(b backend.Backend) error { return bounded(2*soon, b.Close) }

// useless returns when a fresh key has been granted, or the reason why the store has become useless.
func (s *suite) useless() error {
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

// recovers returns when the store is prompt again, so often in a row as another attempt needs, or has not been for a
// while. Attempts at a check would prove nothing until then.
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
		if prompt++; s.granted(b, slow, false) != nil || time.Since(begun) > slow {
			prompt = 0
		}
	}
}

// checkUsable checks, after a failed check, whether the store still grants. If it does not, the remaining checks would
// fail too.
func (s *suite) checkUsable() {
	s.ending <- struct{}{}
	defer func() { <-s.ending }()
	if s.nothing == nil {
		s.nothing = s.useless()
	}
}

// ended returns why no further check is run, or nil.
func (s *suite) ended() error {
	s.ending <- struct{}{}
	defer func() { <-s.ending }()
	if s.nothing != nil {
		return s.nothing
	}
	return s.budget.over()
}
