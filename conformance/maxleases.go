package conformance

import (
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var maxLeasesChecks = []Check{
	{
		Name: "MaxLeasesAreGranted",
		Rule: "Guarantees.MaxLeases: a client holds as many leases at once; one more is ErrUnavailable, or " +
			"waits for its turn",
		Needs: []Need{needsMaxLeases},
		alone: true, // the limit may apply to all clients together
		run:   maxLeasesAreGranted,
	},
}

func maxLeasesAreGranted(t *trial) {
	const most = 1000
	if t.g.MaxLeases > most {
		t.skipf("Guarantees.MaxLeases is %d, more than this check holds", t.g.MaxLeases)
	}
	c := t.open()
	var mu sync.Mutex
	var held []*grant
	t.together(t.g.MaxLeases, func(int) {
		g := t.acquire(c, t.newKey(), t.long())
		mu.Lock()
		held = append(held, g)
		mu.Unlock()
	})
	for range 2 {
		_, err := t.requestKey(t.ctx, c, t.newKey(), t.long(), false)
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrHeld) {
			t.fatalf("Acquire of a free key by a client that holds MaxLeases, %d: %v, want ErrUnavailable", len(held), err)
		}
	}
	w := t.wait(c, t.newKey(), t.long())
	time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
	if w.ended() {
		t.fatalf("an Acquire that waits for its turn among MaxLeases, %d, ended: %v", len(held), w.err)
	}
	for _, g := range held {
		t.renew(g, t.long())
	}
	t.release(held[0])
	t.release(w.granted(t, t.handOff(), "after the release of one of MaxLeases"))
	for _, g := range held[1:] {
		t.refused(t.b, g)
		t.release(g)
	}
}
