package redlock

import (
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// The results in a reply of acquire.lua.
const (
	voteGranted        = "granted"
	voteHeld           = "held"
	voteLate           = "late"
	voteNeedsHandshake = "stranger"
)

// A vote is one node's reply to an acquire request.
type vote struct {
	result    string // voteGranted or another of these
	clock     clockSample
	token     uint64         // if granted
	untilVote time.Duration  // if granted: until the node has a vote
	holder    backend.Holder // if held
}

func parseVote(v any, sent, received time.Time) (vote, error) {
	f := exchange.ReadFields(v)
	a := vote{result: f.Text(), clock: clockSample{f.Number(), sent, received}}
	switch a.result {
	case voteGranted:
		a.token, a.untilVote = f.Token(), f.Millis()
	case voteHeld:
		a.holder = readHolder(f)
		a.holder.Owner = ownerOf(a.holder.Owner)
	case voteLate:
	case voteNeedsHandshake:
		return vote{}, errNeedsHandshake
	default:
		return vote{}, exchange.ErrReply(v)
	}
	return a, f.Err()
}

// readHolder reads a holder whose Owner is the claim's id. Its TTL is as granted, without keepPad.
func readHolder(f *exchange.Fields) backend.Holder {
	h := f.Holder()
	if h.TTL > 0 {
		h.TTL = max(h.TTL-keepPad, time.Millisecond)
	}
	return h
}
