package zookeeper

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

// childrenNamed returns the names of children, and of one that is foreign. In each word of text, the letter is the mode
// (w, t or r: exclusive, exclusiveNoWait or shared), followed by the number.
func childrenNamed(text string) (names []string) {
	for name := range strings.FieldsSeq(text) {
		var number int
		_, _ = fmt.Sscan(name[1:], &number)
		m := map[byte]mode{'w': exclusive, 't': exclusiveNoWait, 'r': shared}[name[0]]
		names = append(names, nodePrefix(name, m)+fmt.Sprintf("%010d", number))
	}
	return append(names, "foreign")
}

func owners(q []place) string {
	var all []string
	for _, p := range q {
		all = append(all, p.owner())
	}
	return strings.Join(all, " ")
}

// The server's counter stops at 2147483647: numbers near it, and negative ones, give no order. Exclusive nodes with
// such numbers never hold the key.
func TestQueue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		children         string
		queue            string
		holders          string
		refuseExclusive  string // the places that refuse an exclusive request behind all of them
		refuseShared     string
		waiters, readers int
		undecided        bool
	}{
		{},
		{"w1", "w1", "w1", "w1", "w1", 0, 0, false},
		{"r1", "r1", "r1", "r1", "", 0, 1, true},
		{"w2 w1", "w1 w2", "w1", "w1 w2", "w1 w2", 1, 0, false},
		{"r3 w2 r1", "r1 w2 r3", "r1", "r1 w2 r3", "w2", 2, 1, false},
		{"r1 w4 r2 r3 r5", "r1 r2 r3 w4 r5", "r1 r2 r3", "r1 r2 r3 w4 r5", "w4", 2, 3, false},
		{"r2 w1 r3", "w1 r2 r3", "w1", "w1 r2 r3", "w1", 2, 0, false},
		{"w7 w2146435071", "w7 w2146435071", "w7", "w7 w2146435071", "w7 w2146435071", 1, 0, false},
		{"w2147483647 r2147483647 r7 w2146435072", "r7 r2147483647 w2146435072 w2147483647",
			"r7 r2147483647", "r7 r2147483647",
			"w2146435072 w2147483647", 2, 2, false},
		{"r-2147483648 w7", "w7 r-2147483648", "w7", "w7 r-2147483648", "w7", 1, 0, false},
		{"r1 t2 t3 r4", "r1 t2 t3 r4", "r1", "r1 t2 t3 r4", "t2 t3", 3, 1, true},
		{"r1 t2 w3", "r1 t2 w3", "r1", "r1 t2 w3", "t2 w3", 2, 1, false},
		{"t1 t2 r3", "t1 t2 r3", "t1", "t1 t2 r3", "t1 t2", 2, 0, false},
		{"w-2147483648 w2147483647", "w-2147483648 w2147483647", "", "", "w-2147483648 w2147483647", 0, 0, false},
	} {
		q := queueOf(childrenNamed(c.children))
		if got := owners(q); got != c.queue {
			t.Errorf("%s: queue %s, want %s", c.children, got, c.queue)
		}
		if got := owners(holdersOf(q)); got != c.holders {
			t.Errorf("%s: holders %s, want %s", c.children, got, c.holders)
		}
		if got := owners(conflicting(q, false)); got != c.refuseExclusive {
			t.Errorf("%s: an exclusive request waits for %s, want %s", c.children, got, c.refuseExclusive)
		}
		if got := owners(conflicting(q, true)); got != c.refuseShared {
			t.Errorf("%s: a shared request waits for %s, want %s", c.children, got, c.refuseShared)
		}
		if got := isUndecided(q); got != c.undecided {
			t.Errorf("%s: undecided %v", c.children, got)
		}
		var held *backend.HeldError
		err := heldError(q)
		switch {
		case c.holders == "" && errors.As(err, &held), !errors.Is(err, backend.ErrHeld):
			t.Errorf("%s: %v", c.children, err)
		case c.holders != "":
			want := backend.Holder{
				Owner: c.holders[strings.LastIndexByte(c.holders, ' ')+1:], Waiters: c.waiters, Shared: c.readers,
			}
			if !errors.As(err, &held) || held.Holder != want {
				t.Errorf("%s: holder %+v, want %+v", c.children, held, want)
			}
		}
	}
}
