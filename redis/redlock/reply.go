package redlock

import (
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// The results in a reply of acquire.lua.
const (
	voteGranted  = "granted"
	voteHeld     = "held"
	voteLate     = "late"
	voteStranger = "stranger"
)

// A vote is one node's reply to an acquire request.
type vote struct {
	what   string
	clock  clockSample
	token  uint64         // if granted
	left   time.Duration  // if granted: until the node has a vote
	holder backend.Holder // if held
}

func parseVote(v any, sent, received time.Time) (vote, error) {
	f := exchange.ReadFields(v)
	a := vote{what: f.Text(), clock: clockSample{f.Number(), sent, received}}
	switch a.what {
	case voteGranted:
		a.token, a.left = f.Token(), f.Millis()
	case voteHeld:
		a.holder = readHolder(f)
		a.holder.Owner = ownerOf(a.holder.Owner)
	case voteLate, voteStranger:
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
