package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var resumeCutChecks = []Check{
	{
		Name: "CutInsideResume",
		Rule: "Resumer.Resume: whatever byte a connection breaks at, also if the client does not connect again, the " +
			"lease lives on, and its other client extends it as before",
		Needs: []Need{needsLinked},
		run:   cutInsideResume,
	},
}

// cutInsideResume cuts Resumes off that shorten leases. It then renews the leases for long, and lets the short TTL
// pass.
func cutInsideResume(t *trial) {
	ttl := t.g.Round(t.short() + 2*time.Second) // the renewal comes sooner
	kept := make(chan *grant, max(1, t.h.Many/4))
	t.cutEverywhere(func(x *cutter) { x.insideResume(ttl, kept) })
	close(kept)
	t.outlast(t.lastRefusal(time.Now(), ttl))
	var grants []*grant
	for g := range kept {
		grants = append(grants, g)
	}
	t.inTurns(len(grants), func(i int) {
		t.heldBy(grants[i])
		t.release(grants[i])
		t.free(t.b, grants[i].key, "after the release of a lease whose Resume was cut off")
	})
}

// insideResume adds leases whose Resume has failed to kept.
func (x *cutter) insideResume(ttl time.Duration, kept chan<- *grant) {
	t := x.t
	g := t.acquire(t.a, t.newKey(), t.long())
	ctx, cancel := context.WithCancel(t.ctx)
	x.begin()
	cuts := x.happened // nil while the request is measured
	var cutOff sync.WaitGroup
	cutOff.Go(func() {
		select {
		case <-cuts:
			cancel() // the client makes no second request
		case <-ctx.Done():
		}
	})
	_, err := x.client.(backend.Resumer).Resume(ctx, backend.Request{Key: g.key, Owner: g.owner, TTL: ttl})
	cancel()
	cutOff.Wait()
	x.end()
	if errors.Is(err, backend.ErrLost) {
		t.fatalf("Resume of a live lease%s: %v", x.where(), err)
	}
	t.renew(g, t.long())
	if err != nil {
		if !kit.IsContextError(err) || !x.isCut() { // the cut has ended the context
			x.unsure(err, "Resume of a live lease")
		}
		time.Sleep(lateBy) // a request may arrive late
		t.renew(g, t.long())
		select {
		case kept <- g:
			return
		default: // the store may be small
		}
	}
	t.heldBy(g)
	t.release(g)
}
