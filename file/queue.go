package file

import "time"

// claimGrace is how long a free key is reserved for a notified waiter before the next one is notified.
const claimGrace = 500 * time.Millisecond

// A post notifies waiters that it is their turn.
type post interface {
	// reach prepares a notification, and reports false if the waiter is dead. It is sent when the record is written.
	reach(q queued) bool
	// hint prepares a notification that a waiter may be next.
	hint(q queued)
	// mine reports whether a waiter is one of this process, which therefore is neither dead nor frozen.
	mine(q queued) bool
}

// expire ends a lease whose TTL has run out.
func (r *record) expire(now int64) {
	if r.owner != "" && now >= r.expires {
		r.free()
	}
}

func (r *record) free() {
	r.token, r.owner, r.expires, r.claimBy = 0, "", 0, 0
}

// offer gives a free key's first waiter its turn, and removes waiters that are dead or have missed their turn. It
// stops at owner, who is here to claim it. It reports whether the record has changed.
func (r *record) offer(owner string, now int64, p post) (changed bool) {
	for r.owner == "" && len(r.queue) > 0 {
		first := r.queue[0]
		switch {
		case first.owner == owner:
			return changed
		case r.claimBy != 0 && now < r.claimBy:
			return changed
		case r.claimBy == 0 && p.reach(first):
			r.claimBy = now + int64(claimGrace)
			if len(r.queue) > 1 {
				p.hint(r.queue[1]) // to take over if the first is frozen
			}
			return true
		case p.mine(first):
			r.remove(0)
		default:
			r.removeInbox(first.inbox) // its process is frozen or dead, and so are its other waiters
		}
		r.claimBy = 0
		changed = true
	}
	return changed
}

// rouse wakes the first waiter for a held key, which may become free sooner than the waiter knows. Dead waiters are
// removed.
func (r *record) rouse(p post) {
	for r.owner != "" && len(r.queue) > 0 && !p.reach(r.queue[0]) {
		r.removeInbox(r.queue[0].inbox)
	}
}

// claim reports whether owner may have the key now: it is free, and nobody else is first in the queue.
func (r *record) claim(owner string) bool {
	return r.owner == "" && (len(r.queue) == 0 || r.queue[0].owner == owner)
}

// grant grants a key that owner may claim.
func (r *record) grant(owner string, token uint64, expires int64) {
	if len(r.queue) > 0 {
		r.remove(0)
	}
	r.owner, r.token, r.expires, r.claimBy = owner, token, expires, 0
}

// place is a waiter's place in the queue, -1 if it is not there.
func (r *record) place(owner string) int {
	for i := range r.queue {
		if r.queue[i].owner == owner {
			return i
		}
	}
	return -1
}

// leave removes a waiter from the queue, and reports whether it was there.
func (r *record) leave(owner string) bool {
	i := r.place(owner)
	if i < 0 {
		return false
	}
	if r.remove(i); i == 0 {
		r.claimBy = 0 // if it was its turn, it is the next one's
	}
	return true
}

func (r *record) remove(i int) { r.queue = append(r.queue[:i], r.queue[i+1:]...) }

func (r *record) removeInbox(inbox uint64) {
	kept := r.queue[:0]
	for _, q := range r.queue {
		if q.inbox != inbox {
			kept = append(kept, q)
		}
	}
	r.queue = kept
}

// opportunity is when a waiter at a place in the queue should poll, if nobody notifies it: the end of the lease or
// of the first one's turn, and a turn for each before it that lets its own pass. At the end of the lease the second looks too: the
// first one's turn begins when somebody offers it.
func (r *record) opportunity(place int) int64 {
	turns := int64(max(place-1, 0)) * int64(claimGrace)
	switch {
	case r.owner != "":
		return r.expires + turns
	case r.claimBy != 0:
		return r.claimBy + turns
	}
	return 0
}
