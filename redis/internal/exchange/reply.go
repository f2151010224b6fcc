package exchange

import (
	"fmt"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
)

func ErrReply(v any) error { return fmt.Errorf("unexpected reply from redis: %q", fmt.Sprint(v)) }

// Fields reads the elements of an array reply in order. Err reports whether any was unexpected.
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

// Millis reads a duration in ms.
func (f *Fields) Millis() time.Duration { return time.Duration(f.Number()) * time.Millisecond }

// Token reads a fencing token: text, because Lua numbers would lose digits.
func (f *Fields) Token() uint64 {
	token, err := strconv.ParseUint(f.Text(), 10, 64)
	f.bad = f.bad || err != nil
	return token
}

// Holder reads three fields: token, owner and remaining ms, which are negative for a foreign value without an expiry.
func (f *Fields) Holder() backend.Holder {
	h := backend.Holder{Token: f.Token(), Owner: f.Text(), Waiters: -1}
	if remaining := f.Millis(); remaining >= 0 {
		h.TTL = max(remaining, time.Millisecond)
	}
	return h
}

// Err returns nil if every field was as expected and none is unread.
func (f *Fields) Err() error {
	if f.bad || len(f.rest) > 0 {
		return ErrReply(f.reply)
	}
	return nil
}
