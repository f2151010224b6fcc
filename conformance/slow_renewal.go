package conformance

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

var slowRenewalChecks = []Check{
	{
		Name: "SlowRenewalSparesNext",
		Rule: "rule 5: a renewal, alone or in a batch, or a Resume, that meets the end of its lease on a slow link, by " +
			"expiry or by Break, touches neither the next holder nor who waits behind it",
		Needs: []Need{needsLinked},
		run:   slowRenewalSparesNext,
	},
}

// slowBy is how long each request takes to reach the store.
const slowBy = 80 * time.Millisecond

// A slowRequest is a way to extend a lease by a client on a slow link.
type slowRequest struct {
	what   string
	shared bool            // the lease is shared
	holder backend.Backend // who acquires the lease; nil for the client on the slow link
	// extends g by client c, and returns the extended lease
	extend func(c backend.Backend, g *grant, ttl time.Duration) (*grant, error)
}

func (t *trial) slowRequests() (requests []slowRequest) {
	for _, way := range t.renewals() {
		requests = append(requests, slowRequest{what: way.what, extend: func(_ backend.Backend, g *grant,
			ttl time.Duration) (*grant, error) {
			return g, way.renew(t.ctx, g, ttl)
		}})
	}
	if _, ok := t.a.(backend.Resumer); !ok {
		return requests
	}
	return append(requests, slowRequest{what: "Resume", holder: t.a, extend: func(c backend.Backend, g *grant,
		ttl time.Duration) (*grant, error) {
		ctx, cancel := context.WithTimeout(t.ctx, recovery)
		defer cancel()
		before := time.Now()
		l, err := c.(backend.Resumer).Resume(ctx, backend.Request{Key: g.key, Owner: g.owner, TTL: ttl, Shared: g.shared})
		if err != nil {
			return nil, err
		}
		return &grant{Lease: l, client: c, key: g.key, owner: g.owner, ttl: ttl, before: before, after: time.Now(),
			shared: g.shared}, nil
	}})
}

// slowRenewalSparesNext makes leases end while requests that extend them are under way. If such a request is two
// requests to the store, one that looks and one that writes, many of the leases end between the two.
func slowRenewalSparesNext(t *trial) {
	var requests []slowRequest
	for _, shared := range t.modes() {
		for _, r := range t.slowRequests() {
			r.what, r.shared = r.what+inMode(shared), shared
			requests = append(requests, r)
		}
	}
	n := min(8, max(1, t.h.Many/2))
	t.inChunks(len(requests), 2*n, func(i int) { t.slowlyExtended(requests[i], n) })
}

// slowlyExtended makes n cases of request. In every other case the lease expires. In the others it is broken.
func (t *trial) slowlyExtended(request slowRequest, n int) {
	c, link := t.linked()
	t.usable(c)
	breaker, breaks := t.b.(backend.Breaker)
	cases := make([]*slowCase, n)
	t.together(n, func(i int) {
		cases[i] = t.newSlowCase(request, c, breaks && i%2 == 1)
	})
	link.Delay(ToStore, slowBy)
	t.together(n, func(i int) {
		moment := (float64(i/2) + rand.Float64()) / float64((n+1)/2) // from 0 to 1
		if x := cases[i]; x.broken {
			x.breakAt(breaker, moment)
		} else {
			x.expireAt(moment)
		}
	})
}

// A slowCase is a lease that client c extends over a slow link, and two waiters for its key.
type slowCase struct {
	*trial
	request slowRequest
	c       backend.Backend
	broken  bool
	g       *grant
	waits   []*waiting
}

func (t *trial) newSlowCase(request slowRequest, c backend.Backend, broken bool) *slowCase {
	holder, ttl := request.holder, t.long()
	if holder == nil {
		holder = c
	}
	if !broken {
		ttl = t.g.Round(t.awaited() + 4*slowBy*time.Duration(t.stretch))
	}
	get := t.acquire
	if request.shared {
		get = t.read
	}
	x := &slowCase{trial: t, request: request, c: c, broken: broken, g: get(holder, t.newKey(), ttl)}
	for i, b := range []backend.Backend{t.b, t.a} {
		x.waits = append(x.waits, t.wait(b, x.g.key, t.long()))
		t.arrived(x.g.key, i+1)
	}
	return x
}

// expireAt sends the request so that it reaches the store shortly before the lease expires, and a second one would
// after that.
func (x *slowCase) expireAt(moment float64) {
	t, g := x.trial, x.g
	time.Sleep(time.Until(g.Deadline()) - slowBy - time.Duration(moment*float64(slowBy)))
	begun := time.Now()
	extended, err := x.request.extend(x.c, g, t.short())
	var end time.Time // of the extended lease, or of the request to release it
	if err == nil {
		deadline, now := extended.Deadline(), time.Now()
		if end = now; deadline.Before(now) {
			end = deadline
		}
		_ = extended.Release(t.ctx) // other checks test the result
	}
	next := x.next(t.g.Round(g.ttl)+t.g.Round(t.short())+t.handOff(), "after an expiry that met "+x.request.what)
	if early := end.Sub(next.after); err == nil && early > 0 {
		t.doubleGrant("a waiter was granted the key %v before the end of a lease that %s had extended", early,
			x.request.what)
	}
	x.touchesNothing(next, begun, err != nil)
}

// breakAt breaks the lease while the request is under way.
func (x *slowCase) breakAt(breaker backend.Breaker, moment float64) {
	t, g := x.trial, x.g
	begun := time.Now()
	call := t.call(func() error { _, err := x.request.extend(x.c, g, t.long()/2); return err })
	time.Sleep(slowBy/2 + time.Duration(moment*float64(2*slowBy))) // sleeps: the two meet at another moment each time
	t.mustBreak(breaker, g)
	next := x.next(t.handOff(), "after a Break that met "+x.request.what)
	_ = call.ends(t, recovery, x.request.what+" on a slow link") // other checks test the result
	x.touchesNothing(next, begun, false)
}

// next returns the lease of the waiter that is granted the key first.
func (x *slowCase) next(patience time.Duration, when string) *grant {
	t := x.trial
	i := t.firstOf(x.waits, patience, when)
	next := x.waits[i].grant
	x.waits = append(x.waits[:i:i], x.waits[i+1:]...)
	return next
}

// touchesNothing fails unless next holds its key as it was granted, and the other waiter still waits. begun is when the
// request was made. If it may have shortened the lease of next, that lease must outlive the shorter TTL.
func (x *slowCase) touchesNothing(next *grant, begun time.Time, shorter bool) {
	t := x.trial
	time.Sleep(time.Until(begun.Add(4 * slowBy))) // sleeps: the last of several requests may still be under way
	t.refused(t.a, next)
	t.describes(next, t.long())
	if shorter {
		t.outlast(t.lastRefusal(time.Now(), t.short()))
	}
	t.heldBy(next)
	x.waits[0].stillWaits(t, next, t.rule)
	t.release(next)
	t.release(x.waits[0].granted(t, t.handOff(), "behind the next holder of a key, after "+x.request.what))
}
