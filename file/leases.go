package file

import "slices"

// expire ends the leases whose TTL has run out.
func (r *record) expire(now int64) {
	r.endLeases(func(l lease) bool { return now >= l.expires })
}

// endLeases removes the leases for which which returns true, and reports whether there were any.
func (r *record) endLeases(which func(lease) bool) bool {
	before := len(r.leases)
	if r.leases = slices.DeleteFunc(r.leases, which); len(r.leases) == 0 {
		r.leases = nil
	}
	return len(r.leases) < before
}

// lease returns the lease of an owner, or nil if there is none.
func (r *record) lease(owner string) *lease {
	i := slices.IndexFunc(r.leases, func(l lease) bool { return l.owner == owner })
	if i < 0 {
		return nil
	}
	return &r.leases[i]
}

// latest returns the lease that ends last, or the zero lease if the key is free.
func (r *record) latest() (last lease) {
	for _, l := range r.leases {
		if l.expires > last.expires || last.owner == "" {
			last = l
		}
	}
	return last
}

// readers returns the number of shared leases.
func (r *record) readers() int {
	if len(r.leases) > 0 && r.leases[0].shared {
		return len(r.leases)
	}
	return 0
}

// mayAcquire reports whether owner may acquire the key now: no lease conflicts, and nobody else is first in the queue.
func (r *record) mayAcquire(owner string, shared bool) bool {
	return (len(r.leases) == 0 || shared && r.readers() > 0) && (len(r.queue) == 0 || r.queue[0].owner == owner)
}

// reserveFor reserves the key for owner, for which mayAcquire has returned true. If the reservation is shared,
// reserveFor also offers the key to the shared waiters behind owner.
func (r *record) reserveFor(owner string, shared bool, now int64, n notifier) {
	if len(r.queue) > 0 {
		r.remove(0)
	}
	r.leases = append(r.leases, lease{owner, 0, now + int64(claimGrace), shared})
	r.claimBy = 0
	r.offer("", now, n)
}

// renew sets the expiry of owner's lease to expires, and returns the lease's token. ok is false if owner has no lease
// in this mode. If the key may become free sooner than the first waiter expects, renew notifies that waiter.
func (r *record) renew(owner string, shared bool, expires int64, n notifier) (token uint64, ok bool) {
	l := r.lease(owner)
	if l == nil || l.token == 0 || l.shared != shared {
		return 0, false
	}
	before := r.latest().expires
	l.expires = expires
	if len(r.queue) > 0 && r.latest().expires < before {
		n.notify(r.queue[0])
	}
	return l.token, true
}

// release removes the lease of owner, or its place in the queue, and offers the key to the waiters. It reports whether
// there was anything to remove, and whether the record has changed.
func (r *record) release(owner string, now int64, n notifier) (had, changed bool) {
	had = r.removeWaiter(owner)
	had = r.endLeases(func(l lease) bool { return l.owner == owner }) || had
	return had, r.offer("", now, n) || had
}
