package postgres

import (
	"fmt"
	"strconv"
	"time"
)

// A transaction id costs the server a record in its log, and up to Postgres 16 a wake-up of its log writer: more than all
// else that a grant takes. A session to which the newest id of the whole server belongs needs no other one: every grant
// before this one, of any client, has a lower or the same id, and those with the same one are its own, which it counts. So
// a token is an id with such a number. The server compares under the lock (the age of an id is its distance to the next
// one that nobody has yet, read when it is first asked for in a transaction; Postgres 14 to 17, xid_age).

const (
	grantBits = 10             // of a token: the session's grants with one id
	idBits    = 55 - grantBits // what package lock leaves for the id
	// ownFor is for how long an id is known to be the session's: it must not come round, after 2^32 others.
	ownFor = 10 * time.Minute
	// ownID is what the server answers if the session's id is the newest.
	ownID = "="
)

// A mint makes a session's tokens. It is used with the session's turn.
type mint struct {
	id     uint64    // the session's latest; 0 for none
	grants uint64    // with that id, after the first
	asked  time.Time // when that id was asked for
}

// own is the id that the server compares, in the 32 bits that it does so by; 0, which is never the newest, if a new one is wanted.
func (m *mint) own(now time.Time) uint32 {
	if m.grants+1 >= 1<<grantBits || now.Sub(m.asked) > ownFor {
		return 0
	}
	return uint32(m.id)
}

// token makes a token of the server's answer to a request that began at asked.
func (m *mint) token(answer string, asked time.Time) (uint64, error) {
	if answer == ownID {
		if m.own(asked) == 0 {
			return 0, fmt.Errorf("unexpected answer %q instead of a transaction id", answer)
		}
		m.grants++
		return m.id<<grantBits | m.grants, nil
	}
	token, err := parseToken(answer)
	if err == nil {
		*m = mint{id: token >> grantBits, asked: asked}
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
