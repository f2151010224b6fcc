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

// A Store keeps locks that its clients share. It is safe for concurrent use. A Store need not be closed; close its
// clients.
type Store struct {
	mu    sync.Mutex
	keys  map[string]*entry  // only held keys
	clock alarm.Clock[*hold] // orders the leases by expiry
	spare *entry             // the last freed entry, for reuse: many keys are held only briefly

	// Guarded by named.mu.
	name    string // from the URL; empty unless the store is in named
	clients int    // open clients of a named store; 0 without a name
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{keys: make(map[string]*entry)}
	s.clock = alarm.New[*hold](s.expire)
	return s
}

// Client returns a new, independent client of the store. Close the client after use.
func (s *Store) Client() *Backend { return newBackend(s, func() {}) }

// tokens is the last token granted by any store of this process. The stores share it, so a store that is opened again
// never reuses a token.
var tokens atomic.Uint64

// acquire grants the key, or returns its holder. If the key is busy and r.Wait is set, acquire also queues r and
// returns its waiter. r.TTL is already rounded.
func (s *Store) acquire(r backend.Request) (g kit.Grant, w *waiter, h backend.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e := s.heldLocked(r.Key, now)
	if e == nil {
		e = s.newEntryLocked(r.Key)
	} else if h := e.holdOf(r.Owner); h != nil && h.isShared() == r.Shared { // a repeated request that was granted before
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

// renew makes the lease of owner end ttl from now, and returns its token. held reports whether owner has a lease of
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

// release ends the lease of owner, or removes owner from the queue, and reports whether owner had either.
func (s *Store) release(key, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[key]
	if e == nil {
		return false
	}
	if h := e.holdOf(owner); h != nil { // an expired lease counts: no conflicting lease was granted since
		s.endLocked(h)
		return true
	}
	i := slices.IndexFunc(e.queue, func(w *waiter) bool { return w.Owner == owner })
	if i < 0 {
		return false
	}
	e.queue = slices.Delete(e.queue, i, i+1)
	s.admitLocked(e) // the removed waiter may have blocked the waiters behind it
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

// discard stops the timer of a store whose only client is closed.
func (s *Store) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.Stop()
}

// heldLocked returns the entry of key, or nil if the key is free. It first ends expired leases, because the timer may
// be late.
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

// newEntryLocked adds and returns an entry for a key that is not held.
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

// grantLocked grants the key to r's owner. r must conflict with no holder.
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

// endLocked ends a lease, and grants the key to the waiters that only this lease blocked.
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

// admitLocked grants the key to waiters from the front of the queue, until one conflicts with a holder.
func (s *Store) admitLocked(e *entry) {
	for len(e.queue) > 0 && e.admits(e.queue[0].Shared) {
		w := e.queue[0]
		e.queue[0] = nil // the array outlives the waiter
		e.queue = e.queue[1:]
		w.granted <- s.grantLocked(e, w.Request, time.Now())
	}
}

// expire runs when the timer fires. It ends the leases whose TTL has run out, and sets the timer again.
func (s *Store) expire() {
	s.mu.Lock()
	s.clock.Woken()
	s.endDueLocked(time.Now())
	s.clock.Arm()
	s.mu.Unlock()
	forget(s)
}
