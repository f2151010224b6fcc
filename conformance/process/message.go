package process

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// The operations of a process.
const (
	opAcquire = "acquire"
	opRenew   = "renew"
	opRelease = "release"
	opLost    = "lost"
	opNow     = "now"
)

// A request is sent by the parent. Keys and owners are byte slices, because a JSON string cannot carry arbitrary bytes.
type request struct {
	ID     int64
	Op     string
	Key    []byte        `json:",omitempty"`
	Owner  []byte        `json:",omitempty"`
	TTL    time.Duration `json:",omitempty"`
	Wait   bool          `json:",omitempty"`
	Shared bool          `json:",omitempty"`
}

// An answer is the process's reply to the request with the same ID. The reply with ID 0 reports whether the client has
// been opened. An Acquire gets two replies: one when it has begun, and one with its result.
type answer struct {
	ID    int64
	Begun bool          `json:",omitempty"`
	Token uint64        `json:",omitempty"`
	Left  time.Duration `json:",omitempty"`
	Clock time.Duration `json:",omitempty"` // sharedClock just before Left was read
	Lost  bool          `json:",omitempty"`
	Now   time.Time     `json:",omitzero"`
	Error string        `json:",omitempty"`
	Is    []string      `json:",omitempty"` // names of the sentinels that the error matches
}

// sentinels are the errors that callers distinguish, by the names that an answer uses.
var sentinels = map[string]error{
	"held": backend.ErrHeld, "lost": backend.ErrLost, "closed": backend.ErrClosed, "invalid": backend.ErrInvalid,
	"unsupported": errors.ErrUnsupported, "unavailable": backend.ErrUnavailable, "cancelled": context.Canceled,
	"deadline": context.DeadlineExceeded,
}

// setError stores err in a.
func (a *answer) setError(err error) {
	if err == nil {
		return
	}
	a.Error = err.Error()
	for name, s := range sentinels {
		if errors.Is(err, s) {
			a.Is = append(a.Is, name)
		}
	}
}

// err returns the error that setError stored at the other end, or nil.
func (a answer) err() error {
	if a.Error == "" && len(a.Is) == 0 {
		return nil
	}
	e := &remoteError{text: a.Error}
	for _, name := range a.Is {
		e.is = append(e.is, sentinels[name])
	}
	return e
}

// A remoteError is an error from another process.
type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() []error { return e.is }
