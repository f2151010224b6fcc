package conformance_test

import (
	"strings"

	"github.com/anylock/lock/backend"
)

// nameMutants are bugs of owners with odd characters, and of the longest names.
var nameMutants = []mutant{
	{"owner ends at a bar", "ExtremesAreAccepted"},
	{"owner with a character of 4 bytes is refused", "ExtremesAreAccepted"},
	{"wait for the longest key by the longest owner fails", "ExtremesAreAccepted"},
}

// keptOwner returns the name that the server keeps for owner.
func (s *server) keptOwner(owner string) string {
	if s.is("owner ends at a bar") {
		owner, _, _ = strings.Cut(owner, "|")
	}
	return owner
}

// hasLongCharacter reports whether UTF-8 needs 4 bytes for a character of owner.
func hasLongCharacter(owner string) bool {
	const most = '\uffff' // of 3 bytes
	return strings.ContainsFunc(owner, func(c rune) bool { return c > most })
}

// isLongest reports whether the key and the owner of r are as long as they may be.
func isLongest(r backend.Request) bool {
	return len(r.Key) == backend.MaxKeyLen && len(r.Owner) == backend.MaxOwnerLen
}

// usesKey reports whether the server uses the key of r itself, as a bug, and refuses it.
func (s *server) usesKey(r backend.Request) bool {
	if r.Key == "tokens" && s.is("lease of the key tokens ends all tokens") {
		clear(s.tokens)
	}
	return r.Key == "seq" && s.is("key seq is the store's own")
}
