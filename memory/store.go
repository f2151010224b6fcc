package memory

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/alarm"
)

// A Store keeps locks that its clients share. It may be used by many goroutines at once. It needs no closing: its
// clients do.
type Store struct {
	mu    sync.Mutex
	keys  map[string]*entry  // of keys that are held
	clock alarm.Clock[*hold] // of leases, by their expiry
	spare *entry             // to use again, because keys are often held for a moment

	// Guarded by named.mu.
	name    string // in a URL; empty if there is none
	clients int    // of a named store
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{keys: make(map[string]*entry)}
	s.clock = alarm.New[*hold](s.expire)
	return s
}

// Client opens an independent client of the store. Close it after use.
func (s *Store) Client() *Backend { return newBackend(s, func() {}) }

// tokens is the last token given by any store of this process, so that no store's ever start again.
var tokens atomic.Uint64

// acquire grants the key, or returns its holder, with a waiter in its queue if r waits. r's TTL is rounded.
func (s *Store) acquire(r backend.Request) (g kit.Grant, w *waiter, h backend.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.heldLocked(r.Key, now)
	if e == nil {
		e = s.newEntryLocked(r.Key)
	} else if h := e.holdOf(r.Owner); h != nil && h.isShared() == r.Shared { // a request again that was granted before
		s.prolongLocked(h, now.Add(r.TTL))
		return kit.Grant{Token: h.token, Sent: now, Got: now, TTL: r.TTL}, nil, backend.Holder{}
	}
	if len(e.queue) == 0 && e.admits(r.Shared) {
		g = s.grantLocked(e, r, now)
		g.Got = now
		return g, nil, backend.Holder{}
	}
	if r.Wait {
		w = &waiter{r, make(chan kit.Grant, 1)}
		e.queue = append(e.queue, w)
	}
	return g, w, e.holder(now)
}

// renew prolongs the lease of an owner to ttl from now and returns its token. held reports whether there is one, of
// this mode.
func (s *Store) renew(key, owner string, shared bool, ttl time.Duration) (token uint64, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	h := s.heldLocked(key, now).holdOf(owner)
	if h == nil || h.isShared() != shared {
		return 0, false
	}
	s.prolongLocked(h, now.Add(ttl))
	return h.token, true
}

// release ends the lease of owner, or its place in the queue, and reports whether it had one.
func (s *Store) release(key, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[key]
	if e == nil {
		return false
	}
	if h := e.holdOf(owner); h != nil { // if it ran out just now, nobody has had the key since
		s.endLocked(h)
		return true
	}
	i := slices.IndexFunc(e.queue, func(w *waiter) bool { return w.Owner == owner })
	if i < 0 {
		return false
	}
	e.queue = slices.Delete(e.queue, i, i+1)
	s.admitLocked(e) // those behind, which the waiter kept from the key
	return true
}

func (s *Store) inspect(key string) backend.Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if e := s.heldLocked(key, now); e != nil {
		return e.holder(now)
	}
	return backend.Holder{}
}

// discard stops the timer of a store that nobody can reach any more.
func (s *Store) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.Stop()
}

// heldLocked returns the entry of a key that is held now, nil if it is free. The timer may be late, so that leases are
// also ended here.
func (s *Store) heldLocked(key string, now time.Time) *entry {
	s.endDueLocked(now)
	return s.keys[key]
}

// endDueLocked ends the leases whose TTL has run out.
func (s *Store) endDueLocked(now time.Time) {
	for due := s.clock.FirstDue(now); due != nil; due = s.clock.FirstDue(now) {
		s.endLocked(due.Item)
	}
}

// newEntryLocked returns the entry of a key that is not held.
func (s *Store) newEntryLocked(key string) *entry {
	e := s.spare
	if s.spare = nil; e == nil {
		e = new(entry)
		e.writer.entry, e.writer.expires.Item = e, &e.writer
	}
	e.key = key
	s.keys[key] = e
	return e
}

// grantLocked grants the key to r's owner, who conflicts with no holder.
func (s *Store) grantLocked(e *entry, r backend.Request, now time.Time) kit.Grant {
	h := &e.writer
	if r.Shared {
		h = e.newReader(r.Owner)
	}
	h.owner, h.token = r.Owner, tokens.Add(1)
	s.prolongLocked(h, now.Add(r.TTL))
	return kit.Grant{Token: h.token, Sent: now, TTL: r.TTL}
}

func (s *Store) prolongLocked(h *hold, expires time.Time) {
	s.clock.Set(&h.expires, expires)
	s.clock.Arm()
}

// endLocked ends a lease, and grants the key to those in its queue whom the lease kept from it.
func (s *Store) endLocked(h *hold) {
	s.clock.Remove(&h.expires)
	e := h.entry
	e.remove(h)
	s.admitLocked(e)
	if e.isFree() {
		delete(s.keys, e.key)
		s.spare = e
	}
}

// admitLocked grants the key to the first in its queue, and to those behind for as long as they conflict with no
// holder.
func (s *Store) admitLocked(e *entry) {
	for len(e.queue) > 0 && e.admits(e.queue[0].Shared) {
		w := e.queue[0]
		e.queue[0] = nil // the array outlives the waiter
		e.queue = e.queue[1:]
		w.granted <- s.grantLocked(e, w.Request, time.Now())
	}
}

// expire ends the leases whose TTL has run out.
func (s *Store) expire() {
	s.mu.Lock()
	s.clock.Woken()
	s.endDueLocked(time.Now())
	s.clock.Arm()
	s.mu.Unlock()
	forget(s)
}
