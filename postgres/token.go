package postgres

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// A new transaction id costs the server more than the rest of a grant: a record in its log and, up to Postgres 16, a
// wake-up of its log writer. A client can share its last id as long as no client of the server has a newer one. Every
// earlier grant, of any client, then has a lower id or the same one. Grants with the same id are the client's own, and
// the client numbers them. So a token is an id and such a number. The server compares the ids while the session holds
// the lock. (The age of an id is its distance to the next unassigned id, read at the first call of age in a
// transaction; Postgres 14 to 17, xid_age.)
//
// Grants of one key are numbered in the order of their replies. That is also the order of the grants: of several
// concurrent attempts on one key, shared or not, all but the first need a new id. Besides, a session shares only ids
// that were assigned after it connected. A server that crashes may assign an id twice, but the crash also ends the
// session.

const (
	grantBits = 10             // bits of a token that number the client's grants with one id
	idBits    = 55 - grantBits // bits for the id: package lock accepts tokens of 55 bits
	// shareLimit is how long a client may share an id. The server compares 32 bits of the id, which repeat after 2^32
	// other ids.
	shareLimit = 10 * time.Minute
	// replyOwnID is the server's reply if the client's id is the newest.
	replyOwnID = "="
)

// A tokenSource makes the tokens of a client. The zero tokenSource is ready.
type tokenSource struct {
	mu       sync.Mutex
	newest   *ownedID
	attempts map[hash]int // number of attempts under way, by key
}

// An ownedID is a transaction id that was assigned to the client. The tokenSource's mutex guards it.
type ownedID struct {
	id        uint64
	requested time.Time // just before the id was requested
	uses      int       // attempts that have shared it
	grants    uint64    // grants to those attempts
}

// begin registers an attempt on h by a session that connected at since. It returns the id that the attempt may share,
// or nil if the attempt needs a new one.
func (t *tokenSource) begin(h hash, now, since time.Time) *ownedID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attempts == nil {
		t.attempts = make(map[hash]int)
	}
	t.attempts[h]++
	own := t.newest
	if own == nil || t.attempts[h] > 1 || own.requested.Before(since) || now.Sub(own.requested) > shareLimit ||
		own.uses+1 >= 1<<grantBits {
		return nil
	}
	own.uses++
	return own
}

// end unregisters an attempt.
func (t *tokenSource) end(h hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attempts[h]--; t.attempts[h] == 0 {
		delete(t.attempts, h)
	}
}

// lowBits returns the low 32 bits of the id, which the server compares. For a nil own it returns 0, which is never the
// newest id.
func (own *ownedID) lowBits() uint32 {
	if own == nil {
		return 0
	}
	return uint32(own.id)
}

// token makes a token from the server's reply to an attempt. The attempt began at requested, and shared own, if own is
// not nil.
func (t *tokenSource) token(answer string, own *ownedID, requested time.Time) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if answer == replyOwnID {
		if own == nil {
			return 0, fmt.Errorf("unexpected answer %q instead of a transaction id", answer)
		}
		own.grants++
		return own.id<<grantBits | own.grants, nil
	}
	token, err := parseToken(answer)
	if err == nil && (t.newest == nil || requested.After(t.newest.requested)) {
		t.newest = &ownedID{id: token >> grantBits, requested: requested}
	}
	return token, err
}

// parseToken returns the first token with a new transaction id.
func parseToken(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 || id >= 1<<idBits {
		return 0, fmt.Errorf("unexpected transaction id %q", text)
	}
	return id << grantBits, nil
}
