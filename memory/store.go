package memory

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/alarm"
)

// A Store keeps locks that its clients share. It may be used by many goroutines at once. It needs no closing: its
// clients do.
type Store struct {
	mu    sync.Mutex
	keys  map[string]*entry  // of keys that are held, and the spare one
	clock alarm.Clock[*hold] // of leases, by their expiry
	spare *entry             // of the key freed last: it is often wanted again at once, or else the next takes it over

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

// heldLen is the number of keys that are held, swept or not.
func (s *Store) heldLen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare != nil {
		return len(s.keys) - 1
	}
	return len(s.keys)
}

// acquire grants the key, or returns its holder, with a waiter in its queue if wait.
func (s *Store) acquire(r backend.Request, ttl time.Duration) (grant, *waiter, backend.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.heldLocked(r.Key, now)
	if e == nil {
		e = s.newEntryLocked(r.Key)
	} else if h := e.holdOf(r.Owner); h != nil && h.isShared() == r.Shared { // a request again that was granted before
		s.prolongLocked(h, now.Add(ttl))
		return grant{h.token, now}, nil, backend.Holder{}
	}
	if e.queue.Len() == 0 && e.admits(r.Shared) {
		return s.grantLocked(e, r.Owner, r.Shared, now, ttl), nil, backend.Holder{}
	}
	if !r.Wait {
		return grant{}, nil, e.holder(now)
	}
	w := &waiter{key: r.Key, owner: r.Owner, ttl: ttl, shared: r.Shared, granted: make(chan grant, 1)}
	w.place = e.queue.PushBack(w)
	return grant{}, w, e.holder(now)
}

// leave removes a waiter from its queue, or releases the lease that it was granted in the meantime.
func (s *Store) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[w.key]
	switch {
	case e == nil || e == s.spare:
	case w.place != nil:
		s.dequeueLocked(e, w)
	default:
		if h := e.holdOf(w.owner); h != nil {
			s.endLocked(h)
		}
	}
}

// renewLocked prolongs the lease of owner to ttl from now and returns it, nil if there is none.
func (s *Store) renewLocked(key, owner string, ttl time.Duration) *hold {
	now := time.Now()
	h := s.heldLocked(key, now).holdOf(owner)
	if h != nil {
		s.prolongLocked(h, now.Add(ttl))
	}
	return h
}

// release ends the lease of owner, or its place in the queue, and reports whether it had one.
func (s *Store) release(key, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[key]
	if e == nil || e == s.spare {
		return false
	}
	if h := e.holdOf(owner); h != nil { // if it ran out just now, nobody has had the key since
		s.endLocked(h)
		return true
	}
	for p := e.queue.Front(); p != nil; p = p.Next() {
		if w := p.Value.(*waiter); w.owner == owner {
			s.dequeueLocked(e, w)
			return true
		}
	}
	return false
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
	e := s.keys[key]
	if e == nil || e == s.spare {
		return nil
	}
	if s.endDueLocked(now); e.isFree() {
		return nil
	}
	return e
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
	s.spare = nil
	switch {
	case e == nil:
		e = new(entry)
		e.writer.init(e)
	case e.key == key:
		return e
	default:
		delete(s.keys, e.key)
	}
	e.key = key
	s.keys[key] = e
	return e
}

// grantLocked grants the key to owner, who conflicts with no holder.
func (s *Store) grantLocked(e *entry, owner string, shared bool, now time.Time, ttl time.Duration) grant {
	h := &e.writer
	if shared {
		h = e.newReader(owner)
	}
	h.owner, h.token = owner, tokens.Add(1)
	s.prolongLocked(h, now.Add(ttl))
	return grant{h.token, now}
}

func (s *Store) prolongLocked(h *hold, expires time.Time) {
	s.clock.Set(&h.expires, expires)
	s.clock.Arm()
}

// endLocked ends a lease, and grants the key to those in its queue whom the lease kept from it.
func (s *Store) endLocked(h *hold) {
	s.clock.Remove(&h.expires)
	h.entry.remove(h)
	if h.entry.queue.Len() > 0 {
		s.admitLocked(h.entry)
	}
	if h.entry.isFree() {
		s.setSpareLocked(h.entry)
	}
}

func (s *Store) setSpareLocked(e *entry) {
	if s.spare != nil {
		delete(s.keys, s.spare.key)
	}
	s.spare = e
}

// dequeueLocked ends a wait, and grants the key to those in the queue whom the waiter kept from it.
func (s *Store) dequeueLocked(e *entry, w *waiter) {
	e.queue.Remove(w.place)
	w.place = nil
	s.admitLocked(e)
}

// admitLocked grants the key to the first in its queue, and to those behind for as long as they conflict with no
// holder.
func (s *Store) admitLocked(e *entry) {
	for front := e.queue.Front(); front != nil; front = e.queue.Front() {
		w := front.Value.(*waiter)
		if !e.admits(w.shared) {
			return
		}
		e.queue.Remove(front)
		w.place = nil
		w.granted <- s.grantLocked(e, w.owner, w.shared, time.Now(), w.ttl)
	}
}
