package conformance_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// parked records that the reader that came last had waited. If beside is set, others held the key before.
func (s *server) parked(key string, e *entry, beside bool) {
	r := e.readers[len(e.readers)-1]
	r.parked, r.beside = true, beside
	s.recordsLocked(keepsParked)
	if beside && s.is("reader that enters as a writer leaves never ends") {
		s.extendReader(key, e, r, time.Now().Add(noExpiry))
	}
}

// keepBriefReader returns how long the server keeps a shared lease for r, which is ttl without a bug.
func (s *server) keepBriefReader(r backend.Request, ttl time.Duration) time.Duration {
	if r.Wait && r.TTL <= shortest && s.is("wait of a reader for MinTTL is kept for half of it") {
		return ttl / 2
	}
	return ttl
}

// readersFirst moves waiting readers before the writers, as a bug. Otherwise the order stays.
func (e *entry) readersFirst() {
	slices.SortStableFunc(e.queue, func(x, y *place) int {
		switch {
		case x.Shared == y.Shared:
			return 0
		case x.Shared:
			return -1
		}
		return 1
	})
}

// liftsReaders moves waiting readers before the writers, as a bug, when the last reader of e is about to expire.
func (s *server) liftsReaders(e *entry) {
	if len(e.readers) != 1 || !s.is("expiry of the last reader lets in the readers behind the writer") {
		return
	}
	e.readersFirst()
}

// leavesGap delays the turn of the first waiter of e for a millisecond, as a bug. Attempts in that time pass it. It
// reports whether it did.
func (s *server) leavesGap(key string, e *entry) bool {
	if len(e.readers) > 0 || len(e.queue) == 0 || e.queue[0].Shared ||
		!s.is("attempt that meets the last reader's release passes a waiting writer") {
		return false
	}
	e.odd.gap = true
	time.AfterFunc(time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.odd.gap && e.owner == "" && len(e.readers) == 0 {
			e.odd.gap = false
			s.endLocked(key, e)
		}
	})
	return true
}

// closesReaders ends the first reader of each key that the closed client c reads, as a bug.
func (s *server) closesReaders(c *client) {
	if !s.is("Close ends the first reader of a key that its client reads") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.keys {
		if slices.ContainsFunc(e.readers, func(r *reader) bool { return r.client == c }) {
			s.removeReader(key, e, 0)
		}
	}
}

// keepsReader reports whether the wait of a reader that has ended is not cleaned up as it should be, as a bug.
func (c *client) keepsReader(ctx context.Context, r backend.Request) bool {
	return c.is("cancelled reader is not cleaned up") ||
		errors.Is(ctx.Err(), context.DeadlineExceeded) && c.is("wait of a reader that times out is not cleaned up") ||
		c.abandonsBriefly(r, "a reader's cancelled wait")
}

// waitsForLonger reports whether r waits for the holders of a longer key, as a bug.
func (s *server) waitsForLonger(key string, r backend.Request) bool {
	readers := r.Shared && s.is("reader waits for the writers of longer keys")
	if writers := !r.Shared && s.is("writer waits for the readers of longer keys"); !readers && !writers {
		return false
	}
	for longer, e := range s.keys {
		if len(longer) > len(key) && strings.HasPrefix(longer, key) &&
			(readers && e.owner != "" || !readers && len(e.readers) > 0) {
			return true
		}
	}
	return false
}

// behindLeft grants the key to the readers directly behind place i of the queue, which a writer has left, although other
// writers wait before them. This is a bug.
func (s *server) behindLeft(key string, e *entry, i int, left backend.Request) {
	switch {
	case left.Shared || i >= len(e.queue) || !e.queue[i].Shared:
	case i > 0 && e.owner == "" && s.is("reader whose nearest writer leaves passes the one before"),
		i == 0 && e.owner != "" && s.is("readers behind a writer that leaves enter beside the writer that holds the key"):
		p := e.queue[i]
		e.queue = slices.Delete(e.queue, i, i+1)
		p.turn <- s.enterLocked(key, e, p.Request, p.client, time.Now())
	}
}
