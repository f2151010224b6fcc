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

// readHolder reads a holder by its id, with the TTL as it was granted, without the pad.
func readHolder(f *exchange.Fields) backend.Holder {
	h := f.Holder()
	if h.TTL > 0 {
		h.TTL = max(h.TTL-keepPad, time.Millisecond)
	}
	return h
}
