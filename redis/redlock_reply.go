package redis

import (
	"time"

	"github.com/anylock/lock/backend"
)

// What redlock_acquire.lua answers.
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
		return vote{}, errReply(v)
	}
	what, _ := list[0].(string)
	clock, err := parseClock(list[1])
	if err != nil {
		return vote{}, errReply(v)
	}
	a := vote{what: what, clock: clockSample{clock, sent, received}}
	switch rest := list[2:]; {
	case what == voteGranted && len(rest) == 2:
		left, ok := rest[1].(int64)
		if a.token, err = parseToken(rest[0]); err != nil || !ok {
			return vote{}, errReply(v)
		}
		a.left = time.Duration(left) * time.Millisecond
	case what == voteHeld && len(rest) == 3:
		token, err := parseToken(rest[0])
		if err != nil {
			return vote{}, errReply(v)
		}
		a.holder, err = parseRedlockHolder(token, rest[1], rest[2])
		return a, err
	case what == voteLate, what == voteStranger:
	default:
		return vote{}, errReply(v)
	}
	return a, nil
}

// parseRedlockHolder tells the TTL as it was granted, without the pad.
func parseRedlockHolder(token uint64, owner, left any) (backend.Holder, error) {
	h, err := parseHolder(token, owner, left)
	h.Owner = ownerOf(h.Owner)
	if h.TTL > 0 {
		h.TTL = max(h.TTL-keepPad, time.Millisecond)
	}
	return h, err
}

func parseClock(v any) (int64, error) {
	us, ok := v.(int64)
	if !ok {
		return 0, errReply(v)
	}
	return us, nil
}
