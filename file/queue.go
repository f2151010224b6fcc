package file

import (
	"math/rand/v2"
	"slices"
	"time"
)

// pollEvery is how often a waiter polls the record in case no notification arrives, unless hundreds wait before it.
const pollEvery = time.Second

// claimGrace is how long a free key is reserved for a notified waiter before the next one is notified.
const claimGrace = 500 * time.Millisecond

// pickUp is how much longer a shared waiter's reservation lasts for each lease beside it: hundreds of waiters that
// enter together need the bucket's file one after the other.
const pickUp = 2 * time.Millisecond

// A post notifies waiters that it is their turn.
type post interface {
	// notify reports false if the waiter's process is dead.
	notify(q queued) bool
	// alive reports the same without a notification.
	alive(q queued) bool
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
		case first.shared && p.notify(first):
			until += int64(len(r.leases)) * int64(pickUp)
			r.leases = append(r.leases, lease{first.owner, 0, until, true})
		case !first.shared && len(r.leases) > 0 && p.alive(first): // not notified: the readers still hold the key
			return changed
		case !first.shared && len(r.leases) == 0 && p.notify(first):
			r.claimBy = until
			return true
		}
		r.remove(0)
		r.claimBy = 0
		changed = true
	}
	return changed
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

// pause is how long a waiter at a place in the queue sleeps if nobody notifies it. The first two poll at the end of the
// last lease, because the first one's turn begins when somebody offers it, or at the end of that turn.
func (r *record) pause(place int, now int64) time.Duration {
	most := pollEvery * time.Duration(1+place/100)
	most -= rand.N(most / 4)
	if place > 1 {
		return most
	}
	next := r.claimBy
	if len(r.leases) > 0 {
		next = r.latest().expires
	}
	return min(max(time.Duration(next-now), time.Millisecond), most)
}
