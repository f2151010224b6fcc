package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of List with many keys, and with keys that a pattern or a text comparison would confuse.
var listChecks = []Check{
	{
		Name: "ListIsComplete",
		Rule: "Lister.List returns each of a thousand held keys once, also while others are acquired and " +
			"released, and no key " +
			"that nobody has acquired; it may return released keys",
		run: listIsComplete,
	},
	{
		Name: "ListComparesBytes",
		Rule: "Lister.List compares the prefix with the beginning of a key only, byte by byte: no byte is a pattern, a " +
			"letter in either case, or an end",
		run: listComparesBytes,
	},
	{
		Name: "CutListFails",
		Rule: "Lister.List whose connection breaks, or whose context ends, in the middle returns an error, or all keys: " +
			"never a part without an error",
		Needs: []Need{needsLinked},
		run:   cutListFails,
	},
}

// lister returns client b as a Lister, or skips the check.
func (t *trial) lister() backend.Lister {
	lister, ok := t.b.(backend.Lister)
	if !ok {
		t.skipf("the store is no Lister")
	}
	return lister
}

// list returns the keys that begin with prefix. It fails if List returns any other key, or a key twice.
func (t *trial) list(lister backend.Lister, prefix string) map[string]bool {
	begun := time.Now()
	keys, err := lister.List(t.ctx, prefix)
	t.lateOnTimeout(err, begun)
	if errors.Is(err, backend.ErrUnavailable) { // constant writes may keep a store from completing a List
		t.tooLate("List: %v", err)
	}
	if err != nil {
		t.fatalf("List: %v", err)
	}
	found := make(map[string]bool, len(keys))
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			t.fatalf("List of the prefix %s returns %s", show(prefix), show(key))
		}
		if found[key] {
			t.fatalf("List of the prefix %s returns %s twice", show(prefix), show(key))
		}
		found[key] = true
	}
	return found
}

// misses describes the held keys that found lacks. It returns an empty string if found has all of them.
func misses(found map[string]bool, held []*grant) string {
	missing, first := 0, ""
	for _, g := range held {
		if !found[g.key] {
			if missing++; first == "" {
				first = g.key
			}
		}
	}
	if missing == 0 {
		return ""
	}
	return fmt.Sprintf("lacks %d of %d held keys, %s among them", missing, len(held), show(first))
}

// holdMany acquires up to n keys with prefix, by both clients in turn, as many as budget allows.
func (t *trial) holdMany(prefix string, n int, budget time.Duration) []*grant {
	held, end := make([]*grant, n), time.Now().Add(budget)
	t.inTurns(n, func(i int) {
		if i < leastOfBatch || time.Now().Before(end) {
			held[i] = t.acquire(t.client(i), fmt.Sprintf("%s%05d", prefix, 7919*i%100000), t.long()) // in no order
		}
	})
	return slices.DeleteFunc(held, func(g *grant) bool { return g == nil })
}

func listIsComplete(t *trial) {
	const (
		room   = 8 // leases for keys that are acquired and released meanwhile
		rounds = 10
		atMost = 2 * time.Second // while other keys are acquired and released
	)
	lister, prefix := t.lister(), t.newKey()+"/"
	held := t.holdMany(prefix, max(1, t.large-room), 3*batchBudget) // often, a page has a thousand keys
	t.notef("%d keys", len(held))
	_ = t.inspect(prefix + "free")
	found := t.list(lister, prefix)
	if missing := misses(found, held); missing != "" {
		t.fatalf("List %s", missing)
	}
	if len(found) != len(held) {
		t.fatalf("List returns %d keys, and %d have been acquired", len(found), len(held))
	}
	var over atomic.Bool
	others := t.call(func() error {
		t.together(min(room/2, t.h.Many), func(i int) {
			for n := 0; !over.Load() && !t.ended(); n++ { // sorted before, between and after the held keys
				t.release(t.acquire(t.client(i), fmt.Sprintf("%s%05d%s", prefix, (n*12347+i)%100000, "+"), t.long()))
			}
		})
		return nil
	})
	for range t.rounds(rounds, time.Now().Add(atMost)) {
		if missing := misses(t.list(lister, prefix), held); missing != "" {
			over.Store(true)
			t.fatalf("List, while other keys are acquired and released, %s", missing)
		}
	}
	over.Store(true)
	if err := others.ends(t, 2*soon, "acquiring and releasing other keys"); err != nil && !t.ended() {
		t.fatalf("acquiring and releasing other keys: %v", err)
	}
	var rest []*grant
	t.inTurns(len(held), func(i int) {
		if i%2 == 0 {
			t.release(held[i])
		}
	})
	for i, g := range held {
		if i%2 == 1 {
			rest = append(rest, g)
		}
	}
	if missing := misses(t.list(lister, prefix), rest); missing != "" {
		t.fatalf("List, after other keys were released, %s", missing)
	}
	t.inTurns(len(held), func(i int) { _ = held[i].Release(t.ctx) })
	t.listsLongKeys(lister)
}

// listsLongKeys lists keys of odd bytes that are longer than 64 KiB together.
func (t *trial) listsLongKeys(lister backend.Lister) {
	const most, size = 160, 1000
	prefix, held := t.newKey()+"/", make([]*grant, min(most, t.h.Many))
	t.inTurns(len(held), func(i int) {
		key := fmt.Sprintf("%s%05d", prefix, i)
		held[i] = t.acquire(t.client(i), key+strings.Repeat("\xff\x00/é", size)[:size-len(key)], t.long())
	})
	if missing := misses(t.list(lister, prefix), held); missing != "" {
		t.fatalf("List of keys of %d odd bytes %s", size, missing)
	}
	t.inTurns(len(held), func(i int) { t.release(held[i]) })
}

func listComparesBytes(t *trial) {
	lister, k := t.lister(), t.newKey()
	ends := []string{
		"", "%", "%%", "_", "__", "*", "**", "?", "??", "[", "[a]", "[^a]", "]", "a", "A", "b", `\`, `\\`, `\*`, `\%`, "%41",
		"{a}", "{", "}", "(", "(a|b)",
		"|", "^", "$", ".", ".*", "+", "'", `"`, "''", ";", "--", "#", "~", "!", "\x00", "\x00\x00", "\x00a", "\x01", "\x7f",
		"\x80", "\xbf", "\xc3", "\xc3\xa9", "\xc3\x89",
		"\xff", "\xff\xff", "\xffa", "\xfe", "\xed\xa0\x80", "e\xcc\x81", "\u212b", "\u00df", "ss", "\n", "\r\n", "\t", " ",
		"  ", "/", "//", "/a", "/..", "/.", ":", "::",
	}
	for ends := range slices.Chunk(ends, max(1, (t.h.Many-8)/2)) {
		var held []*grant
		hold := func(key string) {
			get := t.getterOf(t.g.Shared && len(held)%3 == 2)
			held = append(held, get(t.client(len(held)), key, t.long()))
		}
		for i, end := range ends {
			if hold(k + end); i%8 == 0 {
				hold(k + end + "-more")
			}
		}
		// The prefix in the middle, at the end, in part, in upper case, and after bytes that a store might trim.
		for _, key := range []string{"x" + k, "/" + k + "/a", " " + k, "\x00" + k, k[1:] + k, strings.ToUpper(k),
			k[:len(k)-1]} {
			hold(key)
		}
		for _, end := range append([]string{"", "-", "zzz", "[a-z]", "[!b]", "(?i)a", "%a", "_a", "*a", "?a", "\xc3\xa9x"},
			ends...) {
			if missing := misses(t.list(lister, k+end), slices.DeleteFunc(slices.Clone(held), func(g *grant) bool {
				return !strings.HasPrefix(g.key, k+end)
			})); missing != "" {
				t.fatalf("List of the prefix %s %s", show(k+end), missing)
			}
		}
		for _, g := range held {
			t.release(g)
		}
	}
}

func cutListFails(t *trial) {
	t.lister()
	c, link := t.linked()
	t.usable(c)
	lister, prefix := c.(backend.Lister), t.newKey()+"/"
	held := t.holdMany(prefix, t.large, batchBudget)
	from := link.Passed(FromStore)
	if missing := misses(t.list(lister, prefix), held); missing != "" {
		t.fatalf("List %s", missing)
	}
	size := link.Passed(FromStore) - from
	whole := func(ctx context.Context, what string) {
		keys, err := lister.List(ctx, prefix)
		if err != nil {
			t.uncertain(ctx, err, "List "+what)
			return
		}
		found := make(map[string]bool, len(keys))
		for _, key := range keys {
			found[key] = true
		}
		if missing := misses(found, held); missing != "" {
			t.fatalf("List %s returns no error, and %s", what, missing)
		}
	}
	const places = 8
	for i := range t.rounds(places, time.Now().Add(3*time.Second)) {
		t.usable(c)
		link.CutAfter(FromStore, size*int64(2*i+1)/(2*places))
		whole(t.ctx, "whose connection broke")
		link.Heal()
	}
	t.usable(c)
	const perAnswer = 5 * time.Millisecond // so that a context can end between two pages of a fast store
	link.Delay(FromStore, perAnswer)
	begun := time.Now()
	whole(t.ctx, "over a slow link")
	took := time.Since(begun)
	for i := range t.rounds(places, time.Now().Add(3*time.Second)) {
		ctx, cancel := context.WithTimeout(t.ctx, took*time.Duration(2*i+1)/(2*places))
		whole(ctx, "whose context ended")
		cancel()
	}
	t.inTurns(len(held), func(i int) { _ = held[i].Release(t.ctx) })
}

// uncertain fails if err, of a disturbed request with ctx, claims to know the outcome, or that ctx has ended.
func (t *trial) uncertain(ctx context.Context, err error, what string) {
	t.contextLives(ctx, err, what)
	for _, certain := range []error{backend.ErrHeld, backend.ErrLost, backend.ErrClosed, backend.ErrInvalid,
		errors.ErrUnsupported} {
		if errors.Is(err, certain) {
			t.fatalf("%s: %v, which is not true", what, err)
		}
	}
}
