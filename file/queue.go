package file

import (
	"slices"
	"time"
)

// claimGrace is how long a free key is reserved for a notified waiter before the next one is notified.
const claimGrace = 500 * time.Millisecond

// pickUp is how much longer a shared waiter's reservation lasts for each lease beside it: hundreds of waiters that
// enter together need the bucket's file one after the other.
const pickUp = 2 * time.Millisecond

// A post notifies waiters that it is their turn.
type post interface {
	// reach prepares a notification, and reports false if the waiter is dead. It is sent when the record is written.
	reach(q queued) bool
	// hint prepares a notification that a waiter may be next.
	hint(q queued)
	// alive reports whether the process of a waiter is alive.
	alive(q queued) bool
	// mine reports whether a waiter is one of this process, which therefore is neither dead nor frozen.
	mine(q queued) bool
}

// offer offers the key to the waiters at the head of the queue that no lease keeps out, and removes waiters that are
// dead or have missed their turn. It stops at owner, who is here to claim the key. It reports whether the record has
// changed.
//
// An exclusive waiter stays first in the queue, and the key is reserved for it until claimBy. Shared waiters enter
// together: each gets a lease at once, which is a reservation until the waiter comes. A reservation has no token, and
// expires after claimGrace and the pickUp of the leases beside it.
func (r *record) offer(owner string, now int64, p post) (changed bool) {
	for len(r.queue) > 0 && len(r.leases) == r.readers() {
		first, until := r.queue[0], now+int64(claimGrace)
		switch {
		case first.owner == owner, r.claimBy != 0 && now < r.claimBy:
			return changed
		case r.claimBy != 0: // first has missed its turn
		case first.shared && p.reach(first):
			r.remove(0)
			until += int64(len(r.leases)) * int64(pickUp)
			r.leases = append(r.leases, lease{first.owner, 0, until, true})
			if len(r.queue) > 0 && !r.queue[0].shared {
				p.hint(r.queue[0]) // in case the readers are frozen
			}
			changed = true
			continue
		case !first.shared && len(r.leases) > 0 && p.alive(first): // not notified: the readers still hold the key
			return changed
		case !first.shared && len(r.leases) == 0 && p.reach(first):
			r.claimBy = until
			if len(r.queue) > 1 {
				p.hint(r.queue[1]) // in case the first is frozen
			}
			return true
		}
		if p.mine(first) {
			r.remove(0)
		} else {
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
	for len(r.leases) > 0 && len(r.queue) > 0 && !p.reach(r.queue[0]) {
		r.removeInbox(r.queue[0].inbox)
	}
}

// place is a waiter's place in the queue, -1 if it is not there.
func (r *record) place(owner string) int {
	return slices.IndexFunc(r.queue, func(q queued) bool { return q.owner == owner })
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

func (r *record) remove(i int) {
	copy(r.queue[1:], r.queue[:i]) // quick if i is 0, even if the queue is long
	r.queue = r.queue[1:]
}

func (r *record) removeInbox(inbox uint64) {
	r.queue = slices.DeleteFunc(r.queue, func(q queued) bool { return q.inbox == inbox })
}

// opportunity is when a waiter at a place in the queue should poll, if nobody notifies it: the end of the last lease or
// of the first one's turn, and a turn for each before it that lets its own pass. At the end of the lease the second
// looks too: the first one's turn begins when somebody offers it.
func (r *record) opportunity(place int) int64 {
	turns := int64(max(place-1, 0)) * int64(claimGrace)
	switch {
	case len(r.leases) > 0:
		return r.latest().expires + turns
	case r.claimBy != 0:
		return r.claimBy + turns
	}
	return 0
}
