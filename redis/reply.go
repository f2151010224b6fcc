package redis

import (
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// An answer is what acquireScript returns.
type answer struct {
	granted bool
	token   uint64
	holder  backend.Holder // of a refusal
	added   bool           // the owner has just been given its place in the queue
}

func parseAcquire(v any) (answer, error) {
	list, refused := v.([]any)
	if refused {
		const fields = 4
		if len(list) != fields {
			return answer{}, exchange.ErrReply(v)
		}
		v = list[0]
	}
	token, err := exchange.ParseToken(v)
	switch {
	case err != nil:
		return answer{}, err
	case refused:
		holder, err := exchange.ParseHolder(token, list[1], list[2])
		return answer{holder: holder, added: list[3] == int64(1)}, err
	case token == 0:
		return answer{}, exchange.ErrReply(v)
	}
	return answer{granted: true, token: token}, nil
}

func parseInspect(v any) (backend.Holder, error) {
	list, ok := v.([]any)
	if ok && len(list) == 0 {
		return backend.Holder{}, nil
	}
	if !ok || len(list) != 4 {
		return backend.Holder{}, exchange.ErrReply(v)
	}
	token, err := exchange.ParseToken(list[0])
	if err != nil {
		return backend.Holder{}, err
	}
	waiters, ok := list[3].(int64)
	if !ok {
		return backend.Holder{}, exchange.ErrReply(v)
	}
	h, err := exchange.ParseHolder(token, list[1], list[2])
	h.Waiters = int(waiters)
	return h, err
}

// isKept reports whether a script's answer tells of a grant or of renewals; others have changed nothing that must be kept.
func isKept(v any) bool {
	if _, granted := v.(string); granted {
		return true
	}
	list, _ := v.([]any)
	for _, answer := range list {
		switch answer {
		case renewDone:
			return true
		case renewLost, renewOvertake:
		default:
			return false // a refusal
		}
	}
	return false
}
