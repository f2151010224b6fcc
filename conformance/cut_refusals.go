package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

var cutRefusalChecks = []Check{
	{
		Name: "CutInsideRefusal",
		Rule: "rules 3 and 4: whatever byte of an attempt a connection breaks at while a rival gets the key, ErrHeld means " +
			"that nothing " +
			"is left behind: after the rival's release the key is free at once",
		Needs: []Need{needsLinked},
		run:   func(t *trial) { t.cutEverywhere((*cutter).insideRefusal) },
	},
}

// insideRefusal makes an attempt while a rival acquires the key: before, between or after the requests of the attempt.
// A delay of the link separates these requests. In every other round, the client cannot reconnect after the cut, so
// that no cleanup can remove a record that the attempt should not have left.
func (x *cutter) insideRefusal() {
	const moment = 2 * tick
	t, key := x.t, x.t.newKey()
	t.release(t.acquire(t.a, key, t.long())) // the store has created all that it needs for a new key
	ctx, cancel := context.WithTimeout(t.ctx, 20*moment)
	defer cancel()
	x.link.Delay(ToStore, moment)
	x.begin()
	done, refused := make(chan struct{}), make(chan struct{})
	t.spawn(func() {
		defer close(refused)
		if x.at == nil || x.round%2 == 1 {
			return
		}
		select {
		case <-x.happened:
			x.link.Refuse()
		case <-done:
		}
	})
	var g *grant
	try := t.call(func() (err error) {
		g, err = t.requestKey(ctx, x.client, key, t.long(), false)
		return err
	})
	arrival := 3 * moment / 2 // between the first request and the second one
	if x.at != nil && x.round%4 > 1 {
		arrival = rand.N(3 * moment)
	}
	time.Sleep(arrival)
	rival, rivalErr := t.attempt(t.a, key, t.long())
	err := try.ends(t, recovery, "Acquire whose connection broke")
	close(done)
	<-refused // otherwise Refuse could follow the Heal of end
	if rivalErr != nil && !errors.Is(rivalErr, backend.ErrHeld) {
		t.fatalf("Acquire by a client without faults: %v", rivalErr)
	}
	if rival != nil && g != nil && !x.ended(g) {
		t.doubleGrant("two owners were granted the key at once%s", x.where())
	}
	if rival != nil {
		t.release(rival)
	}
	if errors.Is(err, backend.ErrHeld) {
		t.free(t.b, key, "after ErrHeld and the release of the holder"+x.where())
	}
	x.end()
	switch {
	case g != nil:
		x.releaseUntilFree(g)
	case !errors.Is(err, backend.ErrHeld):
		t.becomesFree(t.b, key, recovery, "after an Acquire that failed"+x.where())
	}
}
