package conformance_test

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/anylock/lock/backend"
)

// keyMutants are bugs in which only some requests confuse keys, or cannot store them.
var keyMutants = []mutant{
	{"reader that waits for a key over 200 bytes is not woken", "OddKeysAreWaitedFor"},
	{"renewal takes keys in lower case", "KeysAreInjective"},
	{"renewal finds no key over 255 bytes", "KeysAreLong"},
	{"batch finds no keys that are no text", "KeysAreBytes"},
	{"batch finds no key over 250 bytes", "KeysAreLong"},

	{"key seq is the store's own", "KeysThatLookAlike"},
	{"lease of the key tokens ends all tokens", "KeysThatLookAlike"},

	{"waiters are queued by keys in lower case", "OddKeysAreWaitedFor"},
	{"waiter leaves the queue of its key in lower case", "OddKeysAreWaitedFor"},
	{"wait for a key over 255 bytes fails", "OddKeysAreWaitedFor"},
	{"wait for a key over 255 bytes is granted at once", "OddKeysAreWaitedFor"},
	{"release wakes who waits for the key and a NUL, too", "OddKeysAreWaitedFor"},
}

// renewed returns the key that a renewal uses.
func (s *server) renewed(key string) string {
	switch {
	case s.is("renewal takes keys in lower case"):
		return strings.ToLower(key)
	case s.is("renewal finds no key over 255 bytes") && len(key) > 255:
		return ""
	}
	return key
}

// missedByBatch reports whether a batch does not find key, as a bug.
func (s *server) missedByBatch(key string) bool {
	return s.is("batch finds no keys that are no text") && !utf8.ValidString(key) ||
		s.is("batch finds no key over 250 bytes") && len(key) > 250
}

// queueOf returns the entry whose queue contains the waiters for key. With bug, that is the entry of the key in lower
// case.
func (s *server) queueOf(key string, bug string) *entry {
	if s.is(bug) {
		key = strings.ToLower(key)
	}
	return s.entryLocked(key)
}

// mayWait returns the error of a wait for r's key, or nil.
func (s *server) mayWait(r backend.Request) error {
	switch {
	case s.is("wait for a key over 255 bytes fails") && r.Wait && len(r.Key) > 255:
		return errors.New("name too long")
	case s.is("wait for the longest key by the longest owner fails") && r.Wait && isLongest(r),
		s.is("waiting reader of the longest key with the longest owner fails") && r.Wait && r.Shared && isLongest(r):
		return errors.New("row too long")
	case s.is("owner with a character of 4 bytes is refused") && hasLongCharacter(r.Owner),
		s.is("reader's owner with a character of 4 bytes is refused") && r.Shared && hasLongCharacter(r.Owner):
		return errors.New("incorrect string value")
	}
	return nil
}

// wakesOther grants a key other than the released key, as a bug.
func (s *server) wakesOther(key string) {
	other := s.keys[key+"\x00"]
	if !s.is("release wakes who waits for the key and a NUL, too") || other == nil || len(other.queue) == 0 {
		return
	}
	p := other.queue[0]
	other.queue = other.queue[1:]
	p.turn <- s.grantLocked(key+"\x00", other, p.Request, p.client, time.Now())
}
