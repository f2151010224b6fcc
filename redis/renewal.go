package redis

import (
	"errors"
	"strconv"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A renewal is what a lease's requests for one TTL say, from the first to the last of them. It does not change: one that was
// given up may be on its way to the connection still.
type renewal struct {
	lock   string
	value  any // a string, kept as the argument of a command
	ttl    time.Duration
	number uint64 // of the TTL, among those that the lease was renewed to one after the other
}

// renewalOf returns what to send for l. One renewal of a lease is under way at a time.
func renewalOf(l *backend.Life, granted time.Duration) *renewal {
	h := l.Data.(*held)
	last := h.renewal
	if last != nil && last.ttl == granted {
		return last
	}
	next := &renewal{ttl: granted, number: 1}
	if last != nil {
		next.lock, next.number = last.lock, last.number+1
	} else {
		next.lock = h.lock
	}
	next.value = lockValue(l.Token(), next.number, l.Owner())
	h.renewal = next
	return next
}

// lockValue is what a lock's key holds.
func lockValue(token, renewal uint64, owner string) string {
	var room [128]byte
	value := strconv.AppendUint(room[:0], token, 10)
	value = append(value, ':')
	value = strconv.AppendUint(value, renewal, 10)
	value = append(value, ':')
	return string(append(value, owner...))
}

// renewalRequest is the request of renewals within limit.
func (b *Backend) renewalRequest(list []*renewal, limit time.Duration) exchange.Request {
	q := exchange.Request{Script: renewScript, Keys: make([]string, len(list)), Args: make([]any, 0, len(list)+1), Replicas: b.options.MinReplicas, Kept: isKept, Limit: limit}
	same := true
	for i, r := range list {
		q.Keys[i] = r.lock
		q.Args = append(q.Args, r.value)
		same = same && r.ttl == list[0].ttl
	}
	if same {
		list = list[:1]
	}
	for _, r := range list {
		q.Args = append(q.Args, r.ttl.Milliseconds())
	}
	return q
}

// What renew.lua returns for a lease.
const (
	renewLost     = int64(0)
	renewDone     = int64(1)
	renewOvertake = int64(2)
)

var errOvertaken = errors.New("overtaken by a later renewal")

// renewAnswers hands each of n leases its error by renew.lua's reply.
func renewAnswers(v any, n int, each func(i int, err error)) {
	list, _ := v.([]any)
	all := len(list) == 1 && list[0] == renewDone
	for i := range n {
		switch {
		case all:
			each(i, nil)
		case len(list) != n:
			each(i, exchange.ErrReply(v))
		default:
			each(i, renewError(list[i]))
		}
	}
}

func renewError(v any) error {
	switch v {
	case renewDone:
		return nil
	case renewLost:
		return backend.ErrLost
	case renewOvertake:
		return errOvertaken
	}
	return exchange.ErrReply(v)
}
