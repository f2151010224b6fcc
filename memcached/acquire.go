package memcached

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

const (
	// slowToken is how long after its lock was requested a token may arrive before Acquire checks that the server still
	// holds the lock.
	slowToken = 250 * time.Millisecond

	// leastPatience is the shortest time for which a waiter outlives an outage.
	leastPatience = 10 * time.Second
)

// waitPause spreads the requests of waiters: memcached tells nobody that a key is free.
var waitPause = backend.Pause{Min: 5 * time.Millisecond, Max: 500 * time.Millisecond}

// held is a lease's Data.
type held struct {
	ttl time.Duration // of the grant
	// An earlier request for this lease went unanswered and may still arrive after the release.
	echo bool
}

// An attempt is one Acquire, from its first request to its grant or end.
type attempt struct {
	b     *Backend
	r     backend.Request
	name  string
	ttl   time.Duration // as it will be granted
	asked bool          // the key was asked for before

	unanswered bool // a request that stores the lock went unanswered, and may still arrive
	mine       bool // the server may hold the key for this owner
}

// An answer is what a try has found out.
type answer struct {
	stored bool      // the server held the key for this owner
	own    bool      // by an earlier request
	sent   time.Time // before the request that stored it
	token  uint64
	took   time.Duration // from sent to the token
	holder *record       // another owner's, if it was looked at
}

// run makes the attempt.
func (a *attempt) run(ctx context.Context) (backend.Lease, error) {
	if !a.r.Wait {
		return a.try(ctx)
	}
	return backend.Poll(ctx, waitPause, max(a.ttl, leastPatience), a.try)
}

// try asks for the key once.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	ans, unanswered, err := ask(ctx, a.b, 0, func(c *lane, unanswered bool) (answer, error) {
		return a.ask(c, a.asked, a.mine || unanswered)
	})
	a.asked = true
	a.unanswered = a.unanswered || unanswered
	a.mine = a.mine || unanswered || ans.stored
	if errors.Is(err, backend.ErrHeld) && ans.holder != nil {
		return nil, &backend.HeldError{Holder: ans.holder.describe()}
	}
	if err != nil {
		return nil, err
	}
	if ans.own || ans.took > slowToken {
		// The server may have dropped the lock before the token was drawn, and another owner may hold a lower token. A
		// renewal succeeds only if it has not. It also restarts the TTL.
		ans.sent = time.Now()
		err := a.b.renew(ctx, a.name, record{owner: a.r.Owner, key: a.r.Key, token: ans.token}, a.ttl, a.b.options.Timeout)
		if errors.Is(err, backend.ErrLost) {
			err = fmt.Errorf("%w: the server dropped it while it was being granted", err)
		}
		if err != nil {
			return nil, err
		}
	}
	l, err := a.b.leases.Grant(ctx, a.r, backend.Grant{
		Token: ans.token, Sent: ans.sent, TTL: a.ttl, Data: &held{ttl: a.ttl, echo: a.unanswered},
	})
	if err != nil { // the owner is spent, and each of these errors ends a wait too
		return nil, err
	}
	return l, nil
}

// ask stores the lock and draws its token, in this order: so tokens rise in the order of the grants. mine tells that the
// lock may have been stored before.
func (a *attempt) ask(c *lane, asked, mine bool) (ans answer, err error) {
	ans.sent = time.Now()
	value := record{owner: a.r.Owner, key: a.r.Key}.encode()
	err = c.Add(&memcache.Item{Key: a.name, Value: value, Expiration: expiration(a.ttl)})
	if errors.Is(err, memcache.ErrNotStored) {
		if asked && !mine { // only a waiter asks again, and the holder is of no use to it
			return ans, backend.ErrHeld
		}
		if ans.holder, err = read(c, a.name, a.r.Key); err != nil {
			return ans, laterError{err}
		}
		if ans.holder == nil || ans.holder.owner != a.r.Owner {
			return ans, backend.ErrHeld
		}
		ans.own, err = true, nil
	}
	if err != nil {
		return ans, err
	}
	ans.stored = true
	if ans.token, err = a.b.nextToken(c); err != nil {
		return ans, laterError{err}
	}
	ans.took = time.Since(ans.sent)
	return ans, nil
}

// end removes, in the background, what the server may keep of an attempt that got no lease.
func (a *attempt) end() {
	if a.mine {
		a.b.leases.Abandon(a.r.Key, a.r.Owner, a.ttl)
	}
}
