package conformance

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks that readers share a key, and that readers and writers exclude each other.
var sharedExclusionChecks = []Check{
	{
		Name: "ReadersShareKey",
		Rule: "rule 1: shared leases of one key are granted beside each other, in one client and in several, whether " +
			"they may wait or not",
		run: readersShareKey,
	},
	{
		Name: "ReadersExcludeWriter",
		Rule: "rule 1: an exclusive lease is refused while any shared one lives, that of its own client too",
		run:  readersExcludeWriter,
	},
	{
		Name: "WriterExcludesReaders",
		Rule: "rule 1: a shared lease is refused while an exclusive one lives, that of its own client too",
		run:  writerExcludesReaders,
	},
	{
		Name: "SharedUnderContention",
		Rule: "rules 1 and 7: under contention no exclusive lease overlaps another, shared or not, and each has a token " +
			"above all before",
		run: sharedUnderContention,
	},
	{
		Name: "SharedKeysAreApart",
		Rule: "rule 8: the shared leases of a key share nothing with another key, whatever names the store derives from it",
		run:  sharedKeysAreApart,
	},
}

func readersShareKey(t *trial) {
	var readers []*grant
	for i := range 8 {
		b := t.client(i / 2)
		if i%2 == 0 {
			readers = append(readers, t.read(b, t.key, t.long()))
		} else {
			readers = append(readers, t.waitToRead(b, t.key, t.long()).granted(t, t.handOff(), "key that is shared"))
		}
		t.readersKeepOut(readers, "beside a new reader")
	}
	other := t.newKey()
	t.free(t.a, other, "another key is shared")
	t.release(t.read(t.b, other, t.long()))
	t.free(t.b, other, "after the release of its only reader")
	for i := len(readers); i > 0; i-- {
		at := rand.N(i)
		t.release(readers[at])
		readers = slices.Delete(readers, at, at+1)
		t.readersKeepOut(readers, "after the release of a reader")
	}
	t.free(t.a, t.key, "after the release of all readers")
}

// readersExcludeWriter releases readers in several orders, while writers attempt to acquire the key and one writer
// waits.
func readersExcludeWriter(t *trial) {
	clients := [][]backend.Backend{{t.a}, {t.b}, {t.a, t.b}, {t.b, t.a, t.a}, {t.a, t.a}, {t.a, t.b, t.b}}
	t.inChunks(len(clients), 3, func(i int) {
		key, writer := t.newKey(), t.client(i)
		var readers []*grant
		for _, b := range clients[i] {
			readers = append(readers, t.read(b, key, t.long()))
		}
		for n := len(readers); n > 0; n-- {
			for _, g := range readers {
				t.refused(t.a, g)
				t.refused(t.b, g)
			}
			if n == 1 {
				break
			}
			at := i % n
			t.release(readers[at])
			readers = slices.Delete(readers, at, at+1)
		}
		w := t.wait(writer, key, t.long())
		t.arrived(key, 1)
		t.refusedFor(t.client(i+1), readers[0], t.short()/2)
		w.stillWaits(t, readers[0], t.rule)
		t.release(readers[0])
		g := w.granted(t, t.handOff(), "after the release of the last reader")
		t.readRefused(g)
		t.release(g)
		t.free(t.client(i+1), key, "after readers and a writer")
	})
}

// readRefused makes shared attempts by both clients on the key of g, an exclusive lease. They must be refused.
func (t *trial) readRefused(g *grant) {
	t.refusedAs(t.a, g, true)
	t.refusedAs(t.b, g, true)
}

func writerExcludesReaders(t *trial) {
	for _, client := range []backend.Backend{t.a, t.b} {
		g := t.acquire(client, t.key, t.long())
		t.readRefused(g)
		leaves := t.wait(client, t.key, t.long())
		t.arrived(t.key, 1)
		waits := []*waiting{t.waitToRead(t.a, t.key, t.long()), t.waitToRead(t.b, t.key, t.long())}
		t.arrived(t.key, 1+len(waits))
		leaves.cancelAndFail(t)
		t.queueAtMost(len(waits))
		t.renew(g, t.long())
		for end := time.Now().Add(t.short() / 2); time.Now().Before(end); time.Sleep(t.short() / 32) {
			t.readRefused(g)
		}
		for _, w := range waits {
			w.stillWaits(t, g, t.rule)
		}
		t.heldBy(g)
		if h := t.inspect(t.key); h.Shared != 0 && g.live(time.Now()) {
			t.breaksText(inspectRule, "Inspect returns %d shared leases of a key that is held exclusively", h.Shared)
		}
		t.release(g)
		for _, r := range t.readersEnter(waits, t.handOff(), "after the writer's release") {
			t.refused(client, r)
			t.release(r)
		}
		t.free(client, t.key, "after the release of all readers")
	}
}

// A roster detects a lease that is granted while a conflicting lease is live.
type roster struct {
	t    *trial
	mu   sync.Mutex
	live map[*grant]bool
}

func (r *roster) granted(g *grant) {
	r.mu.Lock()
	var beside *grant
	for other := range r.live {
		if !(g.shared && other.shared) && other.live(g.after) {
			beside = other
		}
	}
	r.live[g] = true
	r.mu.Unlock()
	if beside != nil {
		r.t.doubleGrant("%s was granted the key%s %v before the end of the lease of %s%s, which has not released it", g.owner,
			inMode(g.shared), time.Until(beside.Deadline()), beside.owner, inMode(beside.shared))
	}
}

// releases removes g; call it before Release.
func (r *roster) releases(g *grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.live, g)
}

// sharedUnderContention makes readers and writers race for the key. Some of them do not wait.
func sharedUnderContention(t *trial) {
	const (
		workers = 8
		rounds  = 16
		atMost  = 4 * time.Second // slow stores make fewer rounds
	)
	h, roster := t.newHistory(), &roster{t: t, live: make(map[*grant]bool)}
	end := time.Now().Add(atMost)
	t.together(workers, func(i int) {
		client := t.client(i)
		for n := range t.rounds(rounds, end) {
			begun := time.Now()
			r := backend.Request{Key: t.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: n%4 != 3, Shared: (i/2+n)%3 != 0}
			g, err := t.request(t.ctx, client, r)
			switch {
			case err != nil && !r.Wait && t.heldOrNil(err):
				continue
			case err != nil:
				t.unavailable(err, begun)
				t.fatalf("Acquire: %v", err)
			}
			roster.granted(g)
			l := h.granted(i, g)
			time.Sleep(rand.N(500 * time.Microsecond))
			if n%2 == 0 {
				t.renew(g, t.long())
			}
			if g.gone() {
				t.fatalf("a lease of %v is lost after %v", g.ttl, time.Since(g.before))
			}
			roster.releases(g)
			called := h.now()
			t.release(g)
			h.released(l, called)
		}
	})
	h.judge()
	t.becomesFree(t.b, t.key, t.handOff(), "after readers and writers")
	t.modesRace()
}

// modesRace makes attempts of readers and writers at a free key at the same moment. Only readers may share the key.
func (t *trial) modesRace() {
	const (
		rounds   = 40
		attempts = 8
		atMost   = 2 * time.Second // slow stores make fewer rounds
	)
	key, end := t.newKey(), time.Now().Add(atMost)
	for range t.rounds(rounds, end) {
		var mu sync.Mutex
		var won []*grant
		t.atOnce(attempts, func(i int) {
			begun := time.Now()
			r := backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long(), Shared: i%4 < 2}
			g, err := t.request(t.ctx, t.client(i), r)
			t.lateOnTimeout(err, begun)
			if !t.heldOrNil(err) {
				t.fatalf("Acquire%s of a contended key: %v, want ErrHeld", inMode(r.Shared), err)
			}
			if g != nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, g)
			}
		})
		if len(won) > 1 && slices.ContainsFunc(won, func(g *grant) bool { return !g.shared }) {
			t.doubleGrant("%d of %d attempts of readers and writers made at the same moment were granted, one of them "+
				"exclusively", len(won), attempts)
		}
		for _, g := range won {
			t.release(g)
		}
	}
}

// sharedKeysAreApart holds a key in one mode, and in the other mode keys whose names a store may derive from it.
func sharedKeysAreApart(t *trial) {
	ends := []string{":readers", ":shared", ":r", "/readers", "/shared", ":w", ":writers", "\x00", "/r", ".readers", ":s",
		":queue", "-"}
	for ends := range slices.Chunk(ends, max(1, t.h.Many-2)) {
		key := t.newKey()
		reader := t.read(t.a, key, t.long())
		var others []*grant
		for i, end := range ends {
			g, err := t.attempt(t.client(i), key+end, t.long())
			if err != nil {
				t.fatalf("exclusive Acquire of %s, while %s is shared: %v", show(key+end), show(key), err)
			}
			others = append(others, g)
		}
		t.readersKeepOut([]*grant{reader}, "beside keys with similar names")
		t.release(reader)
		g := t.acquire(t.b, key, t.long())
		for _, other := range others {
			t.heldBy(other)
			t.release(other)
			r, err := t.share(t.a, other.key, t.long())
			if err != nil {
				t.fatalf("shared Acquire of %s, while %s is held: %v", show(other.key), show(key), err)
			}
			t.release(r)
		}
		t.heldBy(g)
		t.release(g)
	}
	for _, shared := range []bool{true, false} {
		odd := t.oddKeys()
		odd = append(odd[1:], odd[0]) // others begin with that key
		for keys := range slices.Chunk(odd, t.h.Many) {
			t.alternate(keys, shared)
		}
	}
}

// alternate holds keys that look alike: in one mode the first, the third and so on, in the other mode the others. A
// store may derive names for readers from the key. The last key comes last.
func (t *trial) alternate(keys []string, shared bool) {
	grants := make([]*grant, len(keys))
	hold := func(i int) {
		r := backend.Request{Key: keys[i], Owner: backend.NewOwner(), TTL: t.long(), Shared: shared == (i%2 == 0)}
		begun := time.Now()
		g, err := t.request(t.ctx, t.a, r)
		t.lateOnTimeout(err, begun)
		if err != nil {
			t.notGranted("key "+show(r.Key)+inMode(r.Shared)+", beside keys that look alike: Acquire", r.Key, err)
		}
		grants[i] = g
	}
	t.inTurns(len(keys)-1, hold)
	hold(len(keys) - 1)
	lister, lists := t.b.(backend.Lister)
	_, resumes := t.b.(backend.Resumer)
	t.inTurns(len(keys), func(i int) {
		g := grants[i]
		t.renew(g, t.long())
		if !g.shared {
			t.heldBy(g)
			t.refusedAs(t.b, g, true)
			return
		}
		t.readersKeepOut([]*grant{g}, "key "+show(g.key)+", beside keys that look alike")
		if lists && !t.list(lister, g.key)[g.key] {
			t.fatalf("List of the key %s, which a reader holds, does not return it", show(g.key))
		}
		if resumes {
			grants[i] = t.resume(t.b, g, t.long())
		}
	})
	t.inTurns(len(keys), func(i int) {
		t.release(grants[i])
		t.mustBeFree(t.b, keys[i], "key "+show(keys[i])+", after its release")
	})
}
