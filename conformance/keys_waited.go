package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var waitedKeyChecks = []Check{
	{
		Name: "OddKeysAreWaitedFor",
		Rule: "rules 8 and 9: a waiter waits for its own key, whatever its bytes and length: it gets that when it is " +
			"released, and leaves no other",
		run: oddKeysAreWaitedFor,
	},
}

// oddKeys returns keys that a store might confuse with others or fail to store.
func (t *trial) oddKeys() (keys []string) {
	for _, end := range []string{
		"", "A", "a", "É", "é", "e\u0301", "/b", "//b", "/./b", "/b/", ":b", ";b", "|b", " ", "\t", "\n", "\x00", "\x00b",
		"\xff", "\ufffd",
		"%", "%61", "*", "?", "[a]", "'", `"`, `\`, "$1", ":queue", ":waiters",
	} {
		keys = append(keys, t.key+end)
	}
	keys = append(keys, " "+t.key, "{"+t.key+"}", "{"+t.key+"}b")
	for _, n := range []int{250, 251, 255, 256, 512, backend.MaxKeyLen - 1, backend.MaxKeyLen} {
		keys = append(keys, t.pad(n, ""))
	}
	return append(keys, t.key+strings.Repeat("\x00", backend.MaxKeyLen-len(t.key)))
}

// oddKeysAreWaitedFor holds odd keys by one client, while the other client waits for each. Half of the waiters leave.
// The others have their turns one after the other.
func oddKeysAreWaitedFor(t *trial) {
	for keys := range slices.Chunk(t.oddKeys(), t.h.Many) {
		held, waits := make([]*grant, len(keys)), make([]*waiting, len(keys))
		t.inTurns(len(keys), func(i int) {
			held[i] = t.acquire(t.a, keys[i], t.long())
			waits[i] = t.begin(t.ctx, t.b, backend.Request{Key: keys[i], Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
				Shared: t.g.Shared && i/2%2 == 0})
			t.arrived(keys[i], 1)
		})
		leaves := func(i int) bool { return i%2 == 1 }
		t.inTurns(len(keys), func(i int) {
			if leaves(i) {
				waits[i].cancelAndFail(t)
				t.queueAtMostOf(keys[i], 0)
			}
		})
		for i, key := range keys {
			t.inTurns(len(keys)-i, func(j int) { // all turns may take longer than a TTL if the store grants only short TTLs
				if g := held[i+j]; time.Until(g.Deadline()) < t.kept(t.long())/2 {
					t.renew(g, t.long())
				}
			})
			t.release(held[i])
			if leaves(i) {
				t.becomesFree(t.a, key, t.handOff(), "after the release of the key "+show(key)+", whose waiter has left")
			} else {
				t.release(waits[i].granted(t, t.handOff(), "after the release of the key "+show(key)))
			}
			for j := i + 1; j < len(keys); j++ {
				if !leaves(j) {
					waits[j].stillWaits(t, held[j], t.rule)
				}
			}
		}
	}
}
