package backend

import "context"

// Examiner is an optional interface of a Backend that can report what is wrong with its servers, for people and tools.
type Examiner interface {
	// Examine looks at the servers' settings and state, and returns what a user of locks there should know. It changes
	// nothing. What it may not look at is a finding, too ([Unseen]). An error means that the store could not be asked.
	Examine(ctx context.Context) ([]Finding, error)
}

// A Severity is how much a finding matters. A higher value matters more.
type Severity int

const (
	Info     Severity = iota // good to know
	Warning                  // a fault that is to be expected would be worse than it need be
	Critical                 // locks are lost, or not granted, while nothing is broken
)

func (s Severity) String() string { return name(int(s), "info", "warning", "critical") }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding is something that a user should know about a store or, if Found is empty, something to look for.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`            // of this kind of finding, which stays the same: "eviction-policy"
	Where    string   `json:"where,omitempty"` // which of several servers
	Found    string   `json:"found"`           // what there is
	Why      string   `json:"why"`             // why it matters
	Set      string   `json:"set"`             // what to do about it
}
