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
	if _, granted := v.(string); granted {
		f := exchange.ReadFields([]any{v})
		token := f.Token()
		if token == 0 {
			return answer{}, exchange.ErrReply(v)
		}
		return answer{granted: true, token: token}, f.Err()
	}
	f := exchange.ReadFields(v)
	return answer{holder: f.Holder(), added: f.Number() == 1}, f.Err()
}

func parseInspect(v any) (backend.Holder, error) {
	if list, ok := v.([]any); ok && len(list) == 0 {
		return backend.Holder{}, nil
	}
	f := exchange.ReadFields(v)
	h := f.Holder()
	h.Waiters = int(f.Number())
	return h, f.Err()
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
