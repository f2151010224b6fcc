package conformance

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/anylock/lock/backend"
)

// ExecuteResume runs the check of backend.Resumer, which is not yet one of Checks: it has no record of mutants.
func ExecuteResume(ctx context.Context, h Harness) (Result, error) {
	results, err := execute(ctx, h, Options{Run: regexp.MustCompile("^" + resumeChecks[0].Name + "$")}, resumeChecks)
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

var resumeChecks = []Check{
	{
		Name: "ResumeContinuesALease",
		Rule: "Resumer.Resume returns the lease of its owner with the same token, after its client has been closed, and extends it; it never acquires, and an error ends nothing",
		run:  resumeContinuesALease,
	},
}

func resumeContinuesALease(t *trial) {
	resumer, ok := t.b.(backend.Resumer)
	if !ok {
		t.skipf("the store is no Resumer")
	}
	first := t.open()
	g := t.acquire(first, t.newKey(), t.long())
	if err := first.Close(); err != nil {
		t.fatalf("Close: %v", err)
	}
	w := t.wait(t.a, g.key, t.long())
	t.arrived(g.key, 1)
	other := t.acquire(t.a, t.newKey(), t.long())
	free := t.newKey()
	for what, r := range map[string]backend.Request{
		"Resume of an owner that nobody is":             {Key: g.key, Owner: backend.NewOwner()},
		"Resume of an owner that waits":                 {Key: g.key, Owner: w.owner},
		"Resume of an owner that holds another key":     {Key: g.key, Owner: other.owner},
		"Resume of a free key":                          {Key: free, Owner: g.owner},
		"Resume of an owner in front of another's name": {Key: g.key, Owner: g.owner[:len(g.owner)-1]},
	} {
		r.TTL = t.long()
		_, err := resumer.Resume(t.ctx, r)
		t.isLost(err, what)
	}
	if h, err := t.b.Inspect(t.ctx, free); err == nil && h.Held() {
		t.breaks(5, "Resume has acquired a free key")
	}
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	if _, err := resumer.Resume(ended, backend.Request{Key: g.key, Owner: g.owner, TTL: t.long()}); !errors.Is(err, context.Canceled) {
		t.breaks(4, "Resume with an ended context: %v", err)
	}
	resumed := t.resume(resumer, g, t.long())
	t.heldBy(resumed)
	t.renew(resumed, t.long())
	t.release(resumed)
	next := w.granted(t, t.handOff(), "after the release of a resumed lease")
	if t.g.Fencing > backend.FencingNone && next.Token() <= g.Token() {
		t.breaks(7, "token %d was granted after %d", next.Token(), g.Token())
	}
	_, err := resumer.Resume(t.ctx, backend.Request{Key: g.key, Owner: g.owner, TTL: t.long()})
	t.isLost(err, "Resume of a lease that was released")
	t.heldBy(next)
	t.release(next)
	t.release(other)
	t.resumeExtends(resumer)
	if t.g.Shared {
		t.resumeExtendsReader(resumer)
	}
}

// resumeExtends resumes a short lease, which then outlives its first deadline.
func (t *trial) resumeExtends(resumer backend.Resumer) {
	g := t.acquire(t.a, t.newKey(), t.short())
	first := g.Deadline()
	resumed := t.resume(resumer, g, t.long())
	time.Sleep(time.Until(first) + t.g.MaxLate)
	t.heldBy(resumed)
	t.release(resumed)
}

// resumeExtendsReader resumes one of several short shared leases, which then outlives the others.
func (t *trial) resumeExtendsReader(resumer backend.Resumer) {
	readers := t.readers(t.newKey(), 3, t.short())
	resumed := t.resume(resumer, readers[1], t.long())
	t.expire(readers[0])
	t.expire(readers[2])
	t.readersKeepOut([]*grant{resumed}, "after Resume of one of several readers, and the expiry of the others")
	r := backend.Request{Key: resumed.key, Owner: readers[0].owner, TTL: t.long(), Shared: true}
	_, err := resumer.Resume(t.ctx, r)
	t.isLost(err, "Resume of a reader whose lease has expired")
	t.release(resumed)
	t.mustBeFree(t.a, resumed.key, "after the release of a resumed reader")
}

// resume returns the lease of g as another client's.
func (t *trial) resume(resumer backend.Resumer, g *grant, ttl time.Duration) *grant {
	before := time.Now()
	l, err := resumer.Resume(t.ctx, backend.Request{Key: g.key, Owner: g.owner, TTL: ttl, Shared: g.shared})
	if err != nil {
		t.fatalf("Resume of a live lease: %v", err)
	}
	resumed := &grant{Lease: l, client: t.b, key: g.key, owner: g.owner, ttl: ttl, before: before, after: time.Now(),
		shared: g.shared}
	if l.Token() != g.Token() {
		t.breaks(7, "the resumed lease has token %d, and was granted token %d", l.Token(), g.Token())
	}
	if late := l.Deadline().Sub(resumed.after.Add(t.g.Round(ttl))); late > 0 {
		t.breaks(2, "the deadline of the resumed lease is %v after its TTL", late)
	}
	return resumed
}
