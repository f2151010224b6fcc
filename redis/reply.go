package redis

import (
	"fmt"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
)

// An answer is what acquireScript returns.
type answer struct {
	granted bool
	token   uint64
	holder  backend.Holder // of a refusal
	added   bool           // the owner has just been given its place in the queue
}

func errReply(v any) error { return fmt.Errorf("unexpected reply from redis: %v", v) }

func parseAcquire(v any) (answer, error) {
	list, refused := v.([]any)
	if refused {
		const fields = 4
		if len(list) != fields {
			return answer{}, errReply(v)
		}
		v = list[0]
	}
	token, err := parseToken(v)
	switch {
	case err != nil:
		return answer{}, err
	case refused:
		holder, err := parseHolder(token, list[1], list[2])
		return answer{holder: holder, added: list[3] == int64(1)}, err
	case token == 0:
		return answer{}, errReply(v)
	}
	return answer{granted: true, token: token}, nil
}

func parseInspect(v any) (backend.Holder, error) {
	list, ok := v.([]any)
	if ok && len(list) == 0 {
		return backend.Holder{}, nil
	}
	if !ok || len(list) != 4 {
		return backend.Holder{}, errReply(v)
	}
	token, err := parseToken(list[0])
	if err != nil {
		return backend.Holder{}, err
	}
	waiters, ok := list[3].(int64)
	if !ok {
		return backend.Holder{}, errReply(v)
	}
	h, err := parseHolder(token, list[1], list[2])
	h.Waiters = int(waiters)
	return h, err
}

func parseToken(v any) (uint64, error) {
	s, ok := v.(string)
	if !ok {
		return 0, errReply(v)
	}
	token, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, errReply(v)
	}
	return token, nil
}

func parseHolder(token uint64, owner, left any) (backend.Holder, error) {
	o, ok1 := owner.(string)
	ms, ok2 := left.(int64)
	if !ok1 || !ok2 {
		return backend.Holder{}, errReply([]any{owner, left})
	}
	h := backend.Holder{Owner: o, Token: token, Waiters: -1}
	if ms >= 0 { // a negative number means no expiry: a value that is not ours
		h.TTL = max(time.Duration(ms)*time.Millisecond, time.Millisecond)
	}
	return h, nil
}
