package memcached

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// slowToken is the longest time from the request for a lock to the arrival of its token. If the token takes longer,
// Acquire checks that the server still holds the lock.
const slowToken = 250 * time.Millisecond

// pollPause is the pause between a waiter's requests. Waiters poll because memcached does not notify clients.
var pollPause = kit.Pause{Min: 5 * time.Millisecond, Max: 500 * time.Millisecond}

// An attempt is one call of Acquire: it ends when the key is granted or the call fails.
type attempt struct {
	b    *Backend
	r    backend.Request
	name string
	ttl  time.Duration // rounded

	polling    bool // this is not the first request for the key
	unanswered bool // a request to store the lock got no reply
	mayHold    bool // the server may hold the key for this owner
	granted    bool // Leases owns the grant and cleans up
}

// A grant is the server's reply to an attempt.
type grant struct {
	token       uint64
	sent        time.Time // just before the request that stored the lock
	mustConfirm bool      // the server may have dropped the lock since
}

// try requests the key once.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	g, unanswered, err := operation(ctx, a.b, 0, a.store)
	a.polling = true
	a.unanswered = a.unanswered || unanswered
	a.mayHold = a.mayHold || unanswered
	if err != nil {
		return nil, err
	}
	if g.mustConfirm {
		// If the server dropped the lock before the token was drawn, another owner may hold a lower token. A renewal
		// succeeds only if the server still holds the lock. It also restarts the TTL.
		g.sent = time.Now()
		r := record{owner: a.r.Owner, key: a.r.Key, token: g.token}
		err := a.b.renew(ctx, a.name, r, a.ttl, a.b.options.Timeout)
		if errors.Is(err, backend.ErrLost) {
			err = errDropped
		}
		if err != nil {
			return nil, err
		}
	}
	a.granted = true
	return a.b.leases.Grant(ctx, a.r, kit.Grant{Token: g.token, Sent: g.sent, TTL: a.ttl, Unsure: a.unanswered})
}

// store stores the lock, draws its token and appends the token to the lock. The order matters: a token drawn before the
// lock was stored could be lower than the last holder's. unanswered means that an earlier request may have stored the
// lock.
func (a *attempt) store(c *connection, unanswered bool) (g grant, err error) {
	a.mayHold = a.mayHold || unanswered
	g.sent = time.Now()
	value := record{owner: a.r.Owner, key: a.r.Key}.encode()
	err = c.Add(&memcache.Item{Key: a.name, Value: value, Expiration: expiration(a.ttl)})
	if errors.Is(err, memcache.ErrNotStored) {
		if a.polling && !a.mayHold { // a poll does not need the holder
			return g, backend.ErrHeld
		}
		holder, err := read(c, a.name, a.r.Key)
		switch {
		case err != nil:
			return g, err
		case holder == nil:
			return g, backend.ErrHeld
		case holder.owner != a.r.Owner:
			return g, &backend.HeldError{Holder: holder.describe()}
		}
		g.mustConfirm = true // an earlier request stored the lock
	} else if err != nil {
		return g, err
	}
	a.mayHold = true
	if g.token, err = a.b.nextToken(c); err != nil {
		return g, err
	}
	if g.mustConfirm = g.mustConfirm || time.Since(g.sent) > slowToken; g.mustConfirm {
		return g, nil // the renewal stores the token
	}
	r := record{owner: a.r.Owner, key: a.r.Key, token: g.token}
	err = c.Append(&memcache.Item{Key: a.name, Value: r.encodeToken()})
	if errors.Is(err, memcache.ErrNotStored) {
		err = errDropped
	}
	return g, err
}

// errDropped reports a lock that is missing after it was stored.
var errDropped = fmt.Errorf("%w: the server dropped it while it was being granted", backend.ErrLost)

// cleanUp removes, in the background, anything that a failed attempt may have left on the server.
func (a *attempt) cleanUp() {
	switch {
	case a.granted:
	case a.unanswered:
		a.b.leases.Abandon(a.r, a.ttl)
	case a.mayHold:
		a.b.leases.Withdraw(a.r, a.ttl)
	}
}
