package conformance

import (
	"time"

	"github.com/anylock/lock/backend"
)

// Parts of RemovedHolderIsNotified: leases that are removed beside others, of the same client or the same key.

// lostByBreak breaks g, whose Lost must close soon.
func (t *trial) lostByBreak(breaker backend.Breaker, g *grant, of string) {
	t.mustBreak(breaker, g)
	if !t.within(soon, g.Lost()) {
		t.fatalf("Lost is open %v after %s was removed by Break, and nobody renewed it", soon, of)
	}
	if !g.live(time.Now()) {
		t.tooLate("a lease ended by itself before its holder could be notified")
	}
}

// sparesKeysAlike breaks leases of keys that begin like the key of another lease, which must stay.
func (t *trial) sparesKeysAlike(breaker backend.Breaker) {
	key := t.newKey()
	stays := []*grant{t.acquire(t.a, key, t.long()), t.acquire(t.a, key+"/b/c", t.long())}
	for _, end := range []string{"/b", "b", "\x00", ":", "/"} {
		t.lostByBreak(breaker, t.acquire(t.a, key+end, t.long()), "a lease of a key that another begins with")
	}
	time.Sleep(lateBy) // sleeps: a notification may be on its way
	for _, g := range stays {
		if g.gone() && g.live(time.Now()) {
			t.breaks(6, "Lost of a lease of %s is closed: leases of keys that begin alike were removed", show(g.key))
		}
		t.heldBy(g)
		t.release(g)
	}
}

// removesMany breaks many leases of one client at once.
func (t *trial) removesMany(breaker backend.Breaker) {
	grants := make([]*grant, max(1, min(100, t.h.Many-2)))
	t.inTurns(len(grants), func(i int) { grants[i] = t.acquire(t.a, t.newKey(), t.long()) })
	t.inTurns(len(grants), func(i int) { t.mustBreak(breaker, grants[i]) })
	for i, g := range grants {
		if !t.within(soon, g.Lost()) {
			t.fatalf("Lost of lease %d of %d is open %v after all were removed by Break", i+1, len(grants), soon)
		}
	}
	if !grants[0].live(time.Now()) {
		t.tooLate("a lease ended by itself before its holder could be notified")
	}
}

// removesReaders breaks some of a client's readers of one key. Each is notified, and the others are not.
func (t *trial) removesReaders(breaker backend.Breaker) {
	key := t.newKey()
	readers := []*grant{t.read(t.a, key, t.long()), t.read(t.a, key, t.long()), t.read(t.a, key, t.long()),
		t.read(t.a, key, t.long())}
	stays, other := readers[3], t.read(t.b, key, t.long())
	t.lostByBreak(breaker, readers[1], "one of a client's readers of a key")
	t.release(readers[2])
	t.lostByBreak(breaker, readers[0], "a reader beside which another of its client was released")
	time.Sleep(lateBy) // sleeps: a notification may be on its way
	t.readersKeepOut([]*grant{stays, other}, "after other readers were removed by Break")
	t.lostByBreak(breaker, stays, "the last of a client's readers of a key")
	time.Sleep(lateBy) // sleeps: a notification may be on its way
	t.readersKeepOut([]*grant{other}, "after all readers of another client were removed by Break")
	t.release(other)
	t.free(t.b, key, "after Break of all other readers, and the last one's release")
}

// evictsReaders makes the store drop several readers of a key. Each is notified.
func (t *trial) evictsReaders() {
	readers := t.readers(t.newKey(), 4, t.long())
	for range 2 * len(readers) { // the Evict hook may drop one lease at a time
		if !t.inspect(readers[0].key).Held() {
			break
		}
		t.drops(readers[0])
	}
	for i, g := range readers {
		if !t.within(soon, g.Lost()) {
			t.fatalf("Lost of reader %d of %d is open %v after the store has dropped all readers of a key", i+1, len(readers),
				soon)
		}
	}
	if anyExpired(readers) {
		t.tooLate("a reader's lease ended by itself before its holder could be notified")
	}
}
