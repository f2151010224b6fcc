package redlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// A tally is what nodes have said to one question.
type tally struct {
	votes []vote
	errs  []error
}

var errUnasked = errors.New("no answer yet")

type question func(ctx context.Context, node *redis.Client) (vote, error)

// poll asks nodes at once, and waits until all have answered, their time has run out, or ctx has ended. A question that
// has been sent is not called off by ctx: if it ends after ctx, it calls late.
func (s *store) poll(ctx context.Context, nodes []*redis.Client, ask question, late func()) *tally {
	type reply struct {
		i int
		vote
		err error
	}
	replies := make(chan reply, len(nodes))
	var left atomic.Bool // nobody waits for replies any more
	t := &tally{votes: make([]vote, len(nodes)), errs: make([]error, len(nodes))}
	for i, node := range nodes {
		t.errs[i] = errUnasked
		begun := s.calls.Go(func() {
			own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
			defer cancel()
			v, err := ask(own, node)
			replies <- reply{i, v, err}
			if left.Load() {
				late()
			}
		})
		if !begun {
			replies <- reply{i, vote{}, backend.ErrClosed}
		}
	}
	for range nodes {
		select {
		case r := <-replies:
			t.votes[r.i], t.errs[r.i] = r.vote, r.err
		case <-ctx.Done():
			left.Store(true)
			return t
		}
	}
	return t
}

// which lists the nodes with the given vote.
func (t *tally) which(is func(vote) bool) []int {
	var nodes []int
	for i, v := range t.votes {
		if t.errs[i] == nil && is(v) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

func (t *tally) answered() int { return len(t.which(func(vote) bool { return true })) }

// failed is what kept nodes from answering, or nil.
func (t *tally) failed() error { return errors.Join(t.errs...) }

// holder is whom a majority names but me: its lease ends when the majority's has.
func (t *tally) holder(me string) backend.Holder {
	for _, v := range t.votes {
		same := t.which(func(o vote) bool { return o.owner == v.owner })
		if v.owner == "" || v.owner == me || len(same) < len(t.votes)/2+1 {
			continue
		}
		left := time.Duration(0)
		for _, i := range same {
			left = max(left, t.votes[i].left)
		}
		return backend.Holder{Owner: v.owner, TTL: left, Waiters: -1}
	}
	return backend.Holder{}
}
