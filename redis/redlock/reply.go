package redlock

import (
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// What acquire.lua answers.
const (
	voteGranted  = "granted"
	voteHeld     = "held"
	voteLate     = "late"
	voteStranger = "stranger"
)

// A vote is what one node answers to an acquire.
type vote struct {
	what   string
	clock  clockSample
	token  uint64         // granted
	left   time.Duration  // granted: until the node has a vote
	holder backend.Holder // held
}

func parseVote(v any, sent, received time.Time) (vote, error) {
	list, ok := v.([]any)
	if !ok || len(list) < 2 {
		return vote{}, exchange.ErrReply(v)
	}
	what, _ := list[0].(string)
	clock, err := parseClock(list[1])
	if err != nil {
		return vote{}, exchange.ErrReply(v)
	}
	a := vote{what: what, clock: clockSample{clock, sent, received}}
	switch rest := list[2:]; {
	case what == voteGranted && len(rest) == 2:
		left, ok := rest[1].(int64)
		if a.token, err = exchange.ParseToken(rest[0]); err != nil || !ok {
			return vote{}, exchange.ErrReply(v)
		}
		a.left = time.Duration(left) * time.Millisecond
	case what == voteHeld && len(rest) == 3:
		token, err := exchange.ParseToken(rest[0])
		if err != nil {
			return vote{}, exchange.ErrReply(v)
		}
		a.holder, err = parseHolder(token, rest[1], rest[2])
		return a, err
	case what == voteLate, what == voteStranger:
	default:
		return vote{}, exchange.ErrReply(v)
	}
	return a, nil
}

// parseRedlockHolder tells the TTL as it was granted, without the pad.
func parseHolder(token uint64, owner, left any) (backend.Holder, error) {
	h, err := exchange.ParseHolder(token, owner, left)
	h.Owner = ownerOf(h.Owner)
	if h.TTL > 0 {
		h.TTL = max(h.TTL-keepPad, time.Millisecond)
	}
	return h, err
}

func parseClock(v any) (int64, error) {
	us, ok := v.(int64)
	if !ok {
		return 0, exchange.ErrReply(v)
	}
	return us, nil
}
