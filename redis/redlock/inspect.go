package redlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// Inspect implements [backend.Backend]. The holder is the owner that a quorum names. While nodes do not answer that
// could make it one, an owner that fewer name is reported too. The token is 0 where the nodes differ, as they may until
// the lease is renewed.
func (r *Backend) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	err = r.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) (err error) {
		h, err = r.holder(ctx, key)
		return err
	})
	h.Owner = ownerOf(h.Owner)
	return h, err
}

// holder is who holds a key, with its id for its owner.
func (r *Backend) holder(ctx context.Context, key string) (backend.Holder, error) {
	answers := make([]backend.Holder, len(r.nodes))
	t := r.newTally()
	// The nodes that have not answered can change nothing in the result.
	t.over = func() bool {
		h, named := t.holder(answers)
		return t.won() && (!h.Held() || named >= t.quorum && h.TTL > 0 && h.Token > 0)
	}
	w := r.windowFor(time.Minute)
	w.needed = w.outage
	r.ask(ctx, t, w, func(i int, enter entry) {
		r.nodes[i].post(inspectScript.Request([]string{r.naming.lock(key)}), func(v any, err error) {
			var h backend.Holder
			if err == nil {
				h, err = parseInspect(v)
			}
			enter(verdictOf(err), func() { answers[i] = h }, err)
		})
	})
	if err := kit.ContextError(ctx, nil); err != nil {
		return backend.Holder{}, err
	}
	if !t.won() {
		return backend.Holder{}, r.noQuorum(t.misses())
	}
	h, _ := t.holder(answers)
	return h, nil
}

func parseInspect(v any) (backend.Holder, error) {
	if list, ok := v.([]any); ok && len(list) == 0 {
		return backend.Holder{}, nil
	}
	f := exchange.ReadFields(v)
	return readHolder(f), f.Err()
}

// holder is what the answers of the nodes amount to, and how many name it.
func (t *tally) holder(answers []backend.Holder) (h backend.Holder, named int) {
	best := mostNamed(answers)
	if mute := len(t.said) - t.number(yes); len(best) == 0 || len(best)+mute < t.quorum {
		return backend.Holder{}, 0
	}
	var left []time.Duration
	for _, a := range best {
		left = append(left, a.TTL)
	}
	h = best[0]
	h.Token, h.TTL = t.agreedToken(best), t.quorumTTL(left)
	return h, len(best)
}

// mostNamed are the answers that name the owner that most of them name.
func mostNamed(answers []backend.Holder) (best []backend.Holder) {
	byOwner := make(map[string][]backend.Holder)
	for _, a := range answers {
		if !a.Held() {
			continue
		}
		same := append(byOwner[a.Owner], a)
		byOwner[a.Owner] = same
		if len(same) > len(best) {
			best = same
		}
	}
	return best
}

// quorumTTL is for how long a quorum has a key, of which some nodes have said how long they have it: the lease is over
// when fewer than a quorum have. It is 0 where that hangs on nodes that have not answered.
func (t *tally) quorumTTL(left []time.Duration) time.Duration {
	const much = 100 * time.Millisecond
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	least := left[min(t.quorum, len(left))-1]
	if most := left[max(t.quorum-(len(t.said)-t.number(yes)), 1)-1]; most-least > much {
		return 0
	}
	return least
}

// agreedToken is the token that a quorum of answers which name one owner has, 0 if none is: a node has its own number
// until it hears of the token that was chosen.
func (t *tally) agreedToken(answers []backend.Holder) uint64 {
	tokens := make(map[uint64]int)
	for _, a := range answers {
		if tokens[a.Token]++; tokens[a.Token] >= t.quorum {
			return a.Token
		}
	}
	return 0
}
