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

// Inspect implements [backend.Backend]. The holder is the owner that a quorum of the nodes names. If fewer nodes name
// an owner, but missing replies could complete a quorum, the holder is that owner too. The token is 0 if the nodes do
// not agree on it, which they may not until the lease is renewed.
func (r *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return kit.Call(ctx, r.leases, backend.ValidateKey(key), func(ctx context.Context) (backend.Holder, error) {
		h, _, err := r.holder(ctx, key, true)
		h.Owner = ownerOf(h.Owner)
		return h, err
	})
}

// holder returns the holder of a key, with the claim's id as its Owner, and the highest number of the requests that
// nodes have had from it. If ttl is true, it waits longer for nodes that decide how long the lease lasts.
func (r *Backend) holder(ctx context.Context, key string, ttl bool) (h backend.Holder, number uint64, err error) {
	answers, numbers := make([]backend.Holder, len(r.nodes)), make([]uint64, len(r.nodes))
	t := r.newTally()
	// The missing replies cannot change the result.
	t.mayEnd = func() bool {
		h, named := t.holder(answers)
		return t.won() && (!h.Held() || named >= t.quorum && (h.TTL > 0 || !ttl) && h.Token > 0)
	}
	r.runRound(ctx, t, r.windowFor(time.Minute), func(i int, deliver deliverFunc) {
		r.nodes[i].post(inspectScript.Request([]string{r.naming.lock(key)}), func(v any, err error) {
			f := exchange.ReadFields(v)
			h, number := readHolder(f), uint64(f.Number())
			if err == nil {
				err = f.Err()
			}
			deliver(func() { answers[i], numbers[i] = h, number }, err)
		})
	})
	if err := r.quorumError(t); err != nil {
		return h, 0, err
	}
	h, _ = t.holder(answers)
	for i, a := range answers {
		if a.Owner == h.Owner {
			number = max(number, numbers[i])
		}
	}
	return h, number, nil
}

// holder returns the holder that results from the replies, and how many nodes name it.
func (t *tally) holder(answers []backend.Holder) (h backend.Holder, named int) {
	best := mostNamed(answers)
	if len(best) == 0 || len(best)+t.missing() < t.quorum {
		return backend.Holder{}, 0
	}
	h = best[0]
	h.Token, h.TTL = t.agreedToken(best), t.quorumTTL(best)
	return h, len(best)
}

// mostNamed returns the replies that name the owner that most replies name.
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

// quorumTTL returns how long a quorum will have a key, from the answers that name its owner. The lease ends when fewer
// than a quorum have the key. quorumTTL is 0 if the missing replies could change it by more than 100 ms.
func (t *tally) quorumTTL(answers []backend.Holder) time.Duration {
	const tolerance = 100 * time.Millisecond
	slices.SortFunc(answers, func(a, b backend.Holder) int { return cmp.Compare(b.TTL, a.TTL) })
	least := answers[min(t.quorum, len(answers))-1].TTL
	if most := answers[max(t.quorum-t.missing(), 1)-1].TTL; most-least > tolerance {
		return 0
	}
	return least
}

// agreedToken returns the token that a quorum of answers has, or 0 if there is none. All answers name one owner. They
// may differ, because a node has its own number until it receives the chosen token.
func (t *tally) agreedToken(answers []backend.Holder) uint64 {
	tokens := make(map[uint64]int)
	for _, a := range answers {
		if tokens[a.Token]++; tokens[a.Token] >= t.quorum {
			return a.Token
		}
	}
	return 0
}
