package memory

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/alarm"
)

// A Store keeps locks that its clients share. It may be used by many goroutines at once. It needs no closing: its clients
// do.
type Store struct {
	mu    sync.Mutex
	keys  map[string]*entry   // of keys that are held, and the spare one
	clock alarm.Clock[*entry] // of their expiries
	spare *entry              // of the key that was freed last: it is often wanted again at once, or else the next takes it over

	// Guarded by named.mu.
	name    string // in a URL; empty if there is none
	clients int    // of a named store
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{keys: make(map[string]*entry)}
	s.clock = alarm.New[*entry](s.expire)
	return s
}

// Client opens an independent client of the store. Close it after use.
func (s *Store) Client() *Backend { return newBackend(s, func() {}) }

// tokens is the last token given by any store of this process, so that no store's ever start again.
var tokens atomic.Uint64

// An entry is a key that is held, and its queue.
type entry struct {
	key     string
	owner   string
	token   uint64
	expires alarm.Entry[*entry]
	queue   list.List // of *waiter
}

// A waiter waits for a key. Its place in the queue is nil once it has been granted or has left.
type waiter struct {
	key     string
	owner   string
	ttl     time.Duration
	place   *list.Element
	granted chan grant // has room for the one that it gets
}

type grant struct {
	token uint64
	at    time.Time // the lease lives from here
}

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
	switch {
	case e == nil:
		e = s.newEntryLocked(r.Key)
		s.holdLocked(e, r.Owner, now.Add(ttl))
		return grant{e.token, now}, nil, backend.Holder{}
	case e.owner == r.Owner: // a request again that was granted before
		s.prolongLocked(e, now.Add(ttl))
		return grant{e.token, now}, nil, backend.Holder{}
	case !r.Wait:
		return grant{}, nil, e.holder(now)
	}
	w := &waiter{key: r.Key, owner: r.Owner, ttl: ttl, granted: make(chan grant, 1)}
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
		e.queue.Remove(w.place)
		w.place = nil
	case e.owner == w.owner:
		s.endLocked(e)
	}
}

// renewLocked prolongs the lease of owner to ttl from now and reports whether it had one.
func (s *Store) renewLocked(key, owner string, ttl time.Duration) bool {
	now := time.Now()
	e := s.heldLocked(key, now)
	if e == nil || e.owner != owner {
		return false
	}
	s.prolongLocked(e, now.Add(ttl))
	return true
}

// release ends the lease of owner, or its place in the queue, and reports whether it had one.
func (s *Store) release(key, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.keys[key]
	if e == nil {
		return false
	}
	if e.owner == owner { // if it ran out just now, nobody has had the key since
		s.endLocked(e)
		return true
	}
	for p := e.queue.Front(); p != nil; p = p.Next() {
		if w := p.Value.(*waiter); w.owner == owner {
			e.queue.Remove(p)
			w.place = nil
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

// heldLocked returns the entry of a key that is held now. The timer may be late, so that a lease is also ended here.
func (s *Store) heldLocked(key string, now time.Time) *entry {
	e := s.keys[key]
	if e != nil && e != s.spare && !now.Before(e.expires.At()) {
		s.endLocked(e)
		e = s.keys[key]
	}
	if e == s.spare {
		return nil
	}
	return e
}

// newEntryLocked returns the entry of a key that is not held.
func (s *Store) newEntryLocked(key string) *entry {
	e := s.spare
	s.spare = nil
	switch {
	case e == nil:
		e = new(entry)
		e.expires.Item = e
	case e.key == key:
		return e
	default:
		delete(s.keys, e.key)
	}
	e.key = key
	s.keys[key] = e
	return e
}

// endLocked ends the lease on a key, and grants the key to the first in its queue.
func (s *Store) endLocked(e *entry) {
	front := e.queue.Front()
	if front == nil {
		s.clock.Remove(&e.expires)
		e.owner = ""
		if s.spare != nil {
			delete(s.keys, s.spare.key)
		}
		s.spare = e
		return
	}
	w := e.queue.Remove(front).(*waiter)
	w.place = nil
	now := time.Now()
	s.holdLocked(e, w.owner, now.Add(w.ttl))
	w.granted <- grant{e.token, now}
}

func (s *Store) prolongLocked(e *entry, expires time.Time) {
	s.clock.Set(&e.expires, expires)
	s.clock.Arm()
}

func (s *Store) holdLocked(e *entry, owner string, expires time.Time) {
	e.owner, e.token = owner, tokens.Add(1)
	s.prolongLocked(e, expires)
}

func (e *entry) holder(now time.Time) backend.Holder {
	return backend.Holder{Owner: e.owner, Token: e.token, TTL: e.expires.At().Sub(now), Waiters: e.queue.Len()}
}
