package postgres

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// A transaction id costs the server a record in its log, and up to Postgres 16 a wake-up of its log writer: more than
// all else that a grant takes. A client to which the newest id of the whole server belongs needs no other one: every
// grant before this one, of any client, has a lower or the same id, and those with the same one are its own, which it
// counts. So a token is an id with such a number. The server compares under the lock (the age of an id is its distance
// to the next one that nobody has yet, read when it is first asked for in a transaction; Postgres 14 to 17, xid_age).
//
// Grants of one key are counted in the order of their answers. That is the order of the grants as well, because of the
// attempts on one key that are under way at a time, shared or not, all but the first need an id of their own. And a
// session shares only ids that were taken after it had connected: a server that has crashed since, and may give an id
// twice, has ended it.

const (
	grantBits = 10             // of a token: the client's grants with one id
	idBits    = 55 - grantBits // what package lock leaves for the id
	// ownFor is for how long an id is known to be the client's: it must not come round, after 2^32 others.
	ownFor = 10 * time.Minute
	// ownID is what the server answers if the client's id is the newest.
	ownID = "="
)

// A mint makes a client's tokens. The zero mint is ready.
type mint struct {
	mu     sync.Mutex
	newest *ownedID
	asking map[hash]int // attempts under way
}

// An ownedID is a transaction id that is the client's. The mint's mutex guards it.
type ownedID struct {
	id     uint64
	asked  time.Time // when it was asked for
	uses   int       // attempts that have shared it
	grants uint64    // to those
}

// begin counts in an attempt on h, by a session that is there since then, and returns the id that it may share; nil if
// it needs a new one.
func (m *mint) begin(h hash, now, since time.Time) *ownedID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking == nil {
		m.asking = make(map[hash]int)
	}
	m.asking[h]++
	own := m.newest
	if own == nil || m.asking[h] > 1 || own.asked.Before(since) || now.Sub(own.asked) > ownFor ||
		own.uses+1 >= 1<<grantBits {
		return nil
	}
	own.uses++
	return own
}

// end counts an attempt out.
func (m *mint) end(h hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking[h]--; m.asking[h] == 0 {
		delete(m.asking, h)
	}
}

// short is an id in the 32 bits by which the server compares; 0 is never the newest.
func (own *ownedID) short() uint32 {
	if own == nil {
		return 0
	}
	return uint32(own.id)
}

// token makes a token of the server's answer to an attempt that began at asked, and shared own.
func (m *mint) token(answer string, own *ownedID, asked time.Time) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if answer == ownID {
		if own == nil {
			return 0, fmt.Errorf("unexpected answer %q instead of a transaction id", answer)
		}
		own.grants++
		return own.id<<grantBits | own.grants, nil
	}
	token, err := parseToken(answer)
	if err == nil && (m.newest == nil || asked.After(m.newest.asked)) {
		m.newest = &ownedID{id: token >> grantBits, asked: asked}
	}
	return token, err
}

// parseToken makes the first token of a new transaction id.
func parseToken(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 || id >= 1<<idBits {
		return 0, fmt.Errorf("unexpected transaction id %q", text)
	}
	return id << grantBits, nil
}
