package redis

import (
	"context"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// Inspect implements [backend.Backend]. The holder is the owner that a quorum names. While nodes do not answer that could
// make it one, an owner that fewer name is reported too. The token is 0 where the nodes differ, as they may until the
// lease is renewed.
func (r *Redlock) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return backend.Holder{}, err
	}
	if err := r.enter(); err != nil {
		return backend.Holder{}, err
	}
	defer r.calls.end()
	answers := make([]backend.Holder, len(r.nodes))
	errs := make([]error, len(r.nodes))
	begun := time.Now()
	t := r.newTally()
	t.certain = func() bool { return false } // all, if they answer
	r.ask(ctx, t, windowFor(time.Minute), func(i int) (verdict, func(bool)) {
		h, err := r.inspectAt(r.nodes[i], key)
		answer := yes
		if err != nil {
			answer = none
		}
		return answer, func(late bool) {
			if !late {
				answers[i], errs[i] = h, err
			}
		}
	})
	if err := backend.ContextError(ctx, nil); err != nil {
		return backend.Holder{}, err
	}
	if !t.won() {
		return backend.Holder{}, r.noQuorum(t.silent(errs, begun))
	}
	return t.holder(answers), nil
}

func (r *Redlock) inspectAt(n *node, key string) (backend.Holder, error) {
	v, err := n.eval(redlockInspect, []string{r.naming.lock(key)})
	if err != nil {
		return backend.Holder{}, err
	}
	list, ok := v.([]any)
	switch {
	case ok && len(list) == 0:
		return backend.Holder{}, nil
	case !ok || len(list) != 3:
		return backend.Holder{}, errReply(v)
	}
	token, err := parseToken(list[0])
	if err != nil {
		return backend.Holder{}, err
	}
	return parseRedlockHolder(token, list[1], list[2])
}

// holder is what the answers of the nodes amount to.
func (t *tally) holder(answers []backend.Holder) backend.Holder {
	owners := make(map[string]int)
	best := ""
	for _, h := range answers {
		if h.Held() {
			if owners[h.Owner]++; owners[h.Owner] > owners[best] {
				best = h.Owner
			}
		}
	}
	if silent := t.n - t.yes; best == "" || owners[best]+silent < t.quorum {
		return backend.Holder{}
	}
	h := backend.Holder{Owner: best, Waiters: -1}
	tokens := make(map[uint64]int)
	var left []time.Duration
	for _, a := range answers {
		if a.Owner != best {
			continue
		}
		if tokens[a.Token]++; tokens[a.Token] >= t.quorum {
			h.Token = a.Token
		}
		left = append(left, a.TTL)
	}
	// The lease is over when fewer than a quorum have the key.
	slices.SortFunc(left, func(a, b time.Duration) int { return int(b - a) })
	h.TTL = left[min(t.quorum, len(left))-1]
	return h
}
