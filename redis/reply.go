package redis

import (
	"fmt"

	"github.com/anylock/lock/backend"
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

// errReplicas means that a grant or renewal has not reached enough replicas. A grant is given back.
var errReplicas = fmt.Errorf("%w: too few replicas have the lease", backend.ErrUnavailable)

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
