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

// claimGracePerLease is how much longer a shared waiter's reservation lasts for each lease beside it: hundreds of
// waiters that are granted the key together need the bucket's file one after the other.
const claimGracePerLease = 2 * time.Millisecond

// A notifier notifies waiters that it is their turn.
type notifier interface {
	// notify reports false if the waiter's process is dead.
	notify(q queued) bool
	// alive reports the same without a notification.
	alive(q queued) bool
}

// offer offers the key to the waiters at the head of the queue, as long as no lease conflicts. It removes waiters that
// are dead or have missed their turn. It stops at owner, which claims the key by itself. It reports whether the record
// has changed.
//
// An exclusive waiter stays first in the queue, and the key is reserved for it until claimBy. Shared waiters are
// granted the key together: each gets a lease at once, which is a reservation until the waiter claims it. A reservation
// has no token. It expires after claimGrace, plus claimGracePerLease for each lease beside it.
func (r *record) offer(owner string, now int64, n notifier) (changed bool) {
	for len(r.queue) > 0 && len(r.leases) == r.readers() {
		first, until := r.queue[0], now+int64(claimGrace)
		switch {
		case first.owner == owner, r.claimBy != 0 && now < r.claimBy:
			return changed
		case r.claimBy != 0: // first has missed its turn
		case first.shared && n.notify(first):
			until += int64(len(r.leases)) * int64(claimGracePerLease)
			r.leases = append(r.leases, lease{first.owner, 0, until, true})
		case !first.shared && len(r.leases) > 0 && n.alive(first): // not notified: the readers still hold the key
			return changed
		case !first.shared && len(r.leases) == 0 && n.notify(first):
			r.claimBy = until
			return true
		}
		r.remove(0)
		r.claimBy = 0
		changed = true
	}
	return changed
}

// place returns a waiter's position in the queue, or -1 if the waiter is not there.
func (r *record) place(owner string) int {
	return slices.IndexFunc(r.queue, func(q queued) bool { return q.owner == owner })
}

// removeWaiter removes a waiter from the queue, and reports whether it was there.
func (r *record) removeWaiter(owner string) bool {
	i := r.place(owner)
	if i < 0 {
		return false
	}
	if r.remove(i); i == 0 {
		r.claimBy = 0 // ends the reservation that it may have had
	}
	return true
}

func (r *record) remove(i int) {
	copy(r.queue[1:], r.queue[:i]) // quick if i is 0, even if the queue is long
	r.queue = r.queue[1:]
}

// pause returns how long a waiter at a place in the queue sleeps unless it is notified. The first two poll when the
// last lease ends, because the turn of the first begins only when some process offers the key. If the key is reserved
// for the first, they poll when that reservation ends.
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
