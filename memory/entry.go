package memory

import (
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/alarm"
)

// An entry is a held key, with its holders (one writer, or any number of readers) and its queue. The first waiter
// conflicts with a holder, and the others queue behind it.
type entry struct {
	key     string
	writer  hold             // its owner is empty if no lease is exclusive
	readers map[string]*hold // by owner; nil before the first reader
	queue   []*waiter
}

// A hold is one lease of a key. It ends when expires is due.
type hold struct {
	entry   *entry
	owner   string
	token   uint64
	expires alarm.Entry[*hold]
}

// A waiter is a request in the queue of a key.
type waiter struct {
	backend.Request                // its TTL is already rounded
	granted         chan kit.Grant // buffered, so that sending the only grant never blocks
}

func (h *hold) isShared() bool { return h != &h.entry.writer }

func (e *entry) isFree() bool { return e.writer.owner == "" && len(e.readers) == 0 }

// admits reports whether a request of this mode conflicts with no holder.
func (e *entry) admits(shared bool) bool {
	return e.writer.owner == "" && (shared || len(e.readers) == 0)
}

// holdOf returns the lease of owner, or nil if owner has none. e may be nil.
func (e *entry) holdOf(owner string) *hold {
	switch {
	case e == nil || owner == "": // an empty owner would match the unused writer of a key with readers
		return nil
	case e.writer.owner == owner:
		return &e.writer
	}
	return e.readers[owner]
}

func (e *entry) newReader(owner string) *hold {
	h := &hold{entry: e}
	h.expires.Item = h
	if e.readers == nil {
		e.readers = make(map[string]*hold)
	}
	e.readers[owner] = h
	return h
}

func (e *entry) remove(h *hold) {
	if h.isShared() {
		delete(e.readers, h.owner)
	} else {
		h.owner = ""
	}
}

// holder describes the writer, or the reader whose lease ends last.
func (e *entry) holder(now time.Time) backend.Holder {
	last := &e.writer
	for _, h := range e.readers {
		order := h.expires.At().Compare(last.expires.At())
		if !last.isShared() || order > 0 || order == 0 && h.token > last.token {
			last = h
		}
	}
	return backend.Holder{
		Owner: last.owner, Token: last.token, TTL: last.expires.At().Sub(now), Waiters: len(e.queue), Shared: len(e.readers),
	}
}
