package exchange

import (
	"fmt"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
)

func ErrReply(v any) error { return fmt.Errorf("unexpected reply from redis: %v", v) }

func ParseToken(v any) (uint64, error) {
	s, ok := v.(string)
	if !ok {
		return 0, ErrReply(v)
	}
	token, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, ErrReply(v)
	}
	return token, nil
}

func ParseHolder(token uint64, owner, left any) (backend.Holder, error) {
	o, ok1 := owner.(string)
	ms, ok2 := left.(int64)
	if !ok1 || !ok2 {
		return backend.Holder{}, ErrReply([]any{owner, left})
	}
	h := backend.Holder{Owner: o, Token: token, Waiters: -1}
	if ms >= 0 { // a negative number means no expiry: a value that is not ours
		h.TTL = max(time.Duration(ms)*time.Millisecond, time.Millisecond)
	}
	return h, nil
}
