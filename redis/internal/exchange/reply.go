package exchange

import (
	"fmt"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
)

func ErrReply(v any) error { return fmt.Errorf("unexpected reply from redis: %q", fmt.Sprint(v)) }

// Fields take a reply that is an array apart, from its first field to its last. What is not as expected shows in Err.
type Fields struct {
	reply any
	rest  []any
	bad   bool
}

func ReadFields(reply any) *Fields {
	list, ok := reply.([]any)
	return &Fields{reply, list, !ok}
}

func next[T any](f *Fields) (v T) {
	if len(f.rest) == 0 {
		f.bad = true
		return v
	}
	v, ok := f.rest[0].(T)
	f.rest = f.rest[1:]
	f.bad = f.bad || !ok
	return v
}

func (f *Fields) Text() string { return next[string](f) }

func (f *Fields) Number() int64 { return next[int64](f) }

// Millis is a time in ms.
func (f *Fields) Millis() time.Duration { return time.Duration(f.Number()) * time.Millisecond }

// Token is a fencing token: text, because Lua's numbers would lose digits.
func (f *Fields) Token() uint64 {
	token, err := strconv.ParseUint(f.Text(), 10, 64)
	f.bad = f.bad || err != nil
	return token
}

// Holder is three fields: token, owner and ms left, which are negative for a value without an expiry, which is not ours.
func (f *Fields) Holder() backend.Holder {
	h := backend.Holder{Token: f.Token(), Owner: f.Text(), Waiters: -1}
	if left := f.Millis(); left >= 0 {
		h.TTL = max(left, time.Millisecond)
	}
	return h
}

// Err is nil if every field was as expected and none is left.
func (f *Fields) Err() error {
	if f.bad || len(f.rest) > 0 {
		return ErrReply(f.reply)
	}
	return nil
}
