package conformance

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var reservedChecks = []Check{
	{
		Name: "ReservedKeyIsNotFree",
		Rule: "Backend.Inspect: a key that the store reserves for a notified waiter, or has granted to a waiter that does " +
			"not know yet, " +
			"is not free: as long as attempts are refused, Inspect returns a Holder with an owner; no reader passes a writer " +
			"that has its turn",
		Needs: []Need{needsLinked},
		run:   reservedKeyIsNotFree,
	},
}

func reservedKeyIsNotFree(t *trial) {
	modes := t.modes()
	t.inChunks(2*len(modes)-1, 2, func(i int) { t.reservedIsNotFree(modes[i/2], modes[i%len(modes)]) })
}

// reservedIsNotFree inspects a key that is reserved for a reader or a writer that cannot respond. held is the mode of
// the lease before.
func (t *trial) reservedIsNotFree(held, shared bool) {
	const (
		longest = time.Second // of polling; a reservation may expire sooner
		least   = 100 * time.Millisecond
	)
	c, link := t.linked()
	t.usable(c)
	g := t.getterOf(held)(t.a, t.newKey(), t.long())
	t.begin(t.ctx, c, backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.short(), Wait: true, Shared: shared})
	t.confirmQueued(g.key, 1)
	cutOff := time.Now() // from now on, the store may forget the waiter, whose client does not respond
	link.Hold(ToStore)   // the waiter cannot respond, so only the end of the reservation changes the key
	link.Hold(FromStore)
	t.release(g)
	if t.g.Shared && !shared {
		r, _ := t.share(t.b, g.key, t.long())
		if r != nil && r.after.Sub(cutOff) < least {
			t.breaks(9, "a shared request that does not wait passed a writer that has its turn, and does not know yet")
		}
		if r != nil {
			t.release(r)
		}
	}
	for end := time.Now().Add(longest); time.Now().Before(end); time.Sleep(tick) {
		if !t.isReserved(g.key) {
			return
		}
		for _, b := range []backend.Backend{t.a, t.b} {
			if h := t.inspectBy(b, g.key); !h.Held() && t.isReserved(g.key) {
				t.fatalf("Inspect returns %+v, while attempts before and after it are refused: the key is reserved for a waiter", h)
			}
		}
	}
}

// isReserved reports whether an attempt at key is refused.
func (t *trial) isReserved(key string) bool {
	g, err := t.attempt(t.b, key, t.long())
	if err == nil {
		t.release(g)
	} else if !errors.Is(err, backend.ErrHeld) {
		t.breaksText(grantRule, "Acquire of a key that a waiter waits for: %v", err)
	}
	return err != nil
}
