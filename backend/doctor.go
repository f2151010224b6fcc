package backend

import "context"

// Examiner is an optional interface of a Backend that can report what is wrong with its servers, for people and tools.
type Examiner interface {
	// Examine inspects the servers' settings and state, and returns what users of locks there should know. It changes
	// nothing. Anything that it has no permission to read is a finding, too (Unseen of package kit). Every finding has a
	// Code and says what was Found. An error means that the store could not be examined.
	Examine(ctx context.Context) ([]Finding, error)
}

// A Severity is how serious a finding is. A higher value is more serious.
type Severity int

const (
	Info     Severity = iota // good to know
	Warning                  // a failure that must be expected would do more harm than necessary
	Critical                 // locks are lost, or not granted, without any failure
)

func (s Severity) String() string { return name(int(s), "info", "warning", "critical") }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding is something that a user should know about a store. If Found is empty, it describes a problem to look for.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`            // stable identifier of this kind of finding: "eviction-policy"
	Where    string   `json:"where,omitempty"` // the server, if there are several
	Found    string   `json:"found"`           // what was found
	Why      string   `json:"why"`             // why it matters
	Set      string   `json:"set"`             // what to do about it
}
