//go:build unix

package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// A visit is a time in which a client relied on its lease. It begins when the grant arrives, and ends just before the
// release or at the deadline.
type visit struct {
	key          string
	owner        string
	token        uint64
	shared       bool
	enter, leave time.Time
}

// A visitLog contains what the clients did. Neither the server nor the store writes to it.
type visitLog struct {
	mu     sync.Mutex
	visits []visit
}

func (l *visitLog) add(v visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visits = append(l.visits, v)
}

// check returns the overlapping visits that should have excluded each other, and the tokens that do not increase.
func (l *visitLog) check() (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.visits, func(a, b visit) int { return cmp.Or(cmp.Compare(a.key, b.key), a.enter.Compare(b.enter)) })
	var last, lastAlone visit // both of the key: the visit that ends last, and the exclusive visit that ends last
	var token, tokenAlone uint64
	for _, v := range l.visits {
		if v.key != last.key {
			last, lastAlone, token, tokenAlone = visit{key: v.key}, visit{}, 0, 0
		}
		before, least := last, token
		if v.shared {
			before, least = lastAlone, tokenAlone
		}
		if v.enter.Before(before.leave) {
			wrong = append(wrong, fmt.Sprintf("%s: %s (token %d) entered %v before %s (token %d) left",
				v.key, v.owner, v.token, before.leave.Sub(v.enter), before.owner, before.token))
		}
		if v.token <= least {
			wrong = append(wrong, fmt.Sprintf("%s: %s has token %d after %d", v.key, v.owner, v.token, least))
		}
		if v.leave.After(last.leave) {
			last = v
		}
		token = max(token, v.token)
		if !v.shared && v.leave.After(lastAlone.leave) {
			lastAlone = v
		}
		if !v.shared {
			tokenAlone = max(tokenAlone, v.token)
		}
	}
	return wrong
}

// check finds overlapping visits and tokens out of order.
func TestVisitLogFindsOverlaps(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(key string, token uint64, shared bool, enter, leave int) visit {
		return visit{key, fmt.Sprint("o", token), token, shared, start.Add(time.Duration(enter)),
			start.Add(time.Duration(leave))}
	}
	for name, c := range map[string]struct {
		visits []visit
		wrong  int
	}{
		"in turn":                 {[]visit{at("k", 1, false, 0, 5), at("k", 2, false, 5, 9), at("l", 1, false, 3, 6)}, 0},
		"two at once":             {[]visit{at("k", 2, false, 4, 9), at("k", 1, false, 0, 5)}, 1},
		"a long one and two":      {[]visit{at("k", 1, false, 0, 9), at("k", 2, false, 1, 2), at("k", 3, false, 5, 6)}, 2},
		"readers":                 {[]visit{at("k", 1, true, 0, 9), at("k", 1, true, 1, 5), at("k", 2, false, 9, 10)}, 0},
		"a writer beside readers": {[]visit{at("k", 1, true, 0, 9), at("k", 2, true, 1, 2), at("k", 3, false, 5, 6)}, 1},
		"a reader beside writers": {[]visit{at("k", 1, false, 0, 9), at("k", 2, true, 5, 6)}, 1},
		"tokens":                  {[]visit{at("k", 3, false, 0, 1), at("k", 3, false, 2, 3), at("k", 2, true, 4, 5)}, 2},
	} {
		l := visitLog{visits: c.visits}
		if wrong := l.check(); len(wrong) != c.wrong {
			t.Errorf("%s: %q, want %d", name, wrong, c.wrong)
		}
	}
}
