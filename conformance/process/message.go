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

// A request is sent by the parent. Keys and owners are any bytes, which a string of JSON would not carry.
type request struct {
	ID     int64
	Op     string
	Key    []byte        `json:",omitempty"`
	Owner  []byte        `json:",omitempty"`
	TTL    time.Duration `json:",omitempty"`
	Wait   bool          `json:",omitempty"`
	Shared bool          `json:",omitempty"`
}

// An answer is the reply of the process to the request of that ID; the one with ID 0 comes when its client is open. An
// Acquire is answered twice: when it is begun, and with its result.
type answer struct {
	ID    int64
	Begun bool          `json:",omitempty"`
	Token uint64        `json:",omitempty"`
	Left  time.Duration `json:",omitempty"`
	Clock time.Duration `json:",omitempty"` // sharedClock before Left
	Lost  bool          `json:",omitempty"`
	Now   time.Time     `json:",omitzero"`
	Error string        `json:",omitempty"`
	Is    []string      `json:",omitempty"` // names of the sentinels that the error matches
}

// sentinels are the errors that callers decide on.
var sentinels = map[string]error{
	"held": backend.ErrHeld, "lost": backend.ErrLost, "closed": backend.ErrClosed, "invalid": backend.ErrInvalid,
	"unsupported": errors.ErrUnsupported, "unavailable": backend.ErrUnavailable, "cancelled": context.Canceled,
	"deadline": context.DeadlineExceeded,
}

// setError puts err into a.
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

// err is the error that setError has put into the answer at the other end, or nil.
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

// A remoteError is an error of another process.
type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() []error { return e.is }
