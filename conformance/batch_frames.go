package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// batchFrameChecks test batches that are larger than any frame or request of the store.
var batchFrameChecks = []Check{
	{
		Name: "BatchFindsLossesAnywhere",
		Rule: "rule 5: RenewBatch returns ErrLost for exactly the leases that the store has dropped, shared or not, " +
			"wherever they are in a batch of a thousand, and renews all others",
		Needs: []Need{needsEvict},
		run:   batchFindsLossesAnywhere,
	},
	{
		Name: "CutInsideBatch",
		Rule: "BatchRenewer.RenewBatch: if a connection breaks, or the context ends, in the middle of a large batch, the " +
			"store has renewed each " +
			"lease whose error is nil, no live lease is lost, and no deadline is later than the store's",
		Needs: []Need{needsLinked},
		run:   cutInsideBatch,
	},
}

const (
	// the size of a large batch on the slowest store: more leases than etcd accepts in one transaction
	leastOfBatch = 160
	batchBudget  = 2 * time.Second // the time for acquiring the leases of a large batch
)

// batchSize returns the size of a large batch in a check that makes requestsEach requests for each lease. A slow store
// gets a smaller batch.
func (t *trial) batchSize(requestsEach int) int {
	const gain = 4 // how many times faster requests are if turns of them run at once
	most := int(batchBudget * gain / (max(t.usual(), time.Microsecond) * time.Duration(requestsEach)))
	return min(t.large, max(leastOfBatch, most))
}

// acquireMany acquires up to n fresh keys by client c: as many as it can within batchBudget, but at least leastOfBatch.
// If the store has shared leases, every third one is shared.
func (t *trial) acquireMany(c backend.Backend, n int, ttl time.Duration) []*grant {
	grants, end := make([]*grant, n), time.Now().Add(batchBudget)
	t.inTurns(n, func(i int) {
		get := t.acquire
		if t.g.Shared && i%3 == 2 {
			get = t.read
		}
		if i < leastOfBatch || time.Now().Before(end) {
			grants[i] = get(c, t.newKey(), ttl)
		}
	})
	return slices.DeleteFunc(grants, func(g *grant) bool { return g == nil })
}

// lossPattern chooses at random which of n leases are dropped. At each boundary of frames of a likely size, exactly one
// of the two neighbouring leases is dropped. The pattern and its complement together drop each position once and keep
// it once.
func lossPattern(n int) []bool {
	lost := make([]bool, n)
	for i := range lost {
		lost[i] = rand.N(2) == 0
		for _, frame := range []int{16, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1000, 1024} {
			if i > 0 && i%frame == 0 {
				lost[i] = !lost[i-1]
			}
		}
	}
	if n > 1 {
		lost[n-1] = !lost[n-2]
	}
	return lost
}

func batchFindsLossesAnywhere(t *trial) {
	client, lossesWait := t.a, func() (deliver func()) { return func() {} }
	// Hold back the loss notifications. Otherwise the client knows of the losses and does not ask the store.
	if t.g.ReportsLoss && t.h.Linked != nil {
		c, link := t.linked()
		t.usable(c)
		client, lossesWait = c, func() func() { return t.holdAnswers(link) }
	}
	batcher, ok := client.(backend.BatchRenewer)
	if !ok {
		t.skipf("the store is no BatchRenewer")
	}
	ttl := t.long()
	grants := t.acquireMany(client, t.batchSize(5), ttl)
	n := len(grants)
	lost := lossPattern(n)
	for range 2 { // the second round uses the complement of the pattern
		deliver := lossesWait()
		taken := t.dropAll(grants, lost)
		ttl = min(ttl+t.long()/4, t.longest())
		ttls := make([]time.Duration, n)
		for i := range ttls { // a store may group a batch by TTL
			ttls[i] = ttl - t.long()/8*time.Duration(i*7%5)/5
		}
		before := time.Now()
		t.spawn(deliver)
		t.renewsExactly(batcher, grants, lost, ttls, before)
		t.inTurns(n, func(i int) {
			switch {
			case !lost[i]:
				t.remains(grants[i], ttls[i], "RenewBatch")
				return
			case !t.within(soon, grants[i].Lost()):
				t.breaks(6, "Lost is open after RenewBatch returned ErrLost")
			case taken[i] != nil:
				t.describes(taken[i], t.long())
				t.release(taken[i])
			case i%8 == 1:
				t.staysFree(grants[i].key, "after batch renewal of a lease that the store had dropped")
			}
			grants[i] = t.acquire(client, t.newKey(), ttl)
		})
		for i := range lost {
			lost[i] = !lost[i]
		}
	}
	t.inTurns(n, func(i int) { _ = grants[i].Release(t.ctx) })
}

// holdAnswers holds back everything that the store sends. deliver waits for a moment until the client has sent a
// request, then delivers the data and heals the link.
func (t *trial) holdAnswers(link Link) (deliver func()) {
	link.Hold(FromStore)
	sent := t.sent(link)
	return func() {
		t.poll(time.Second, sent)
		link.Heal()
	}
}

// dropAll makes the store drop the leases that lost marks. At every fourth index, it then acquires the key of the
// dropped lease for another owner, and returns that grant in taken.
func (t *trial) dropAll(grants []*grant, lost []bool) (taken []*grant) {
	taken = make([]*grant, len(grants))
	t.inTurns(len(grants), func(i int) {
		if !lost[i] {
			return
		}
		if err := t.h.Evict(t.ctx, grants[i].key); err != nil {
			t.fatalf("Evict: %v", err)
		}
		if i%4 == 0 {
			taken[i] = t.acquire(t.b, grants[i].key, t.long())
		}
	})
	return taken
}

// renewsExactly renews grants in one batch. The batch must renew exactly the leases that lost does not mark. before is
// a time before the batch is sent.
func (t *trial) renewsExactly(
	batcher backend.BatchRenewer, grants []*grant, lost []bool, ttls []time.Duration, before time.Time,
) {
	n := len(grants)
	deadlines := make([]time.Time, n)
	for i, g := range grants {
		deadlines[i] = g.Deadline()
	}
	batch := make([]backend.Renewal, n)
	for i, g := range grants {
		batch[i] = backend.Renewal{Lease: g.Lease, TTL: ttls[i]}
	}
	errs := batcher.RenewBatch(t.ctx, batch)
	if len(errs) != n {
		t.fatalf("a batch of %d leases has %d errors", n, len(errs))
	}
	t.answeredAll(errs, before)
	for i, err := range errs {
		switch {
		case lost[i] && !errors.Is(err, backend.ErrLost):
			t.fatalf("lease %d of a batch of %d, which the store had dropped: %v, want ErrLost", i, n, err)
		case lost[i]:
		case err != nil:
			t.lostInTime(err, deadlines[i], before, ttls[i])
			t.fatalf("lease %d of a batch of %d, which is live: %v", i, n, err)
		default:
			t.keepsDeadline(grants[i], ttls[i], before, time.Now(), "RenewBatch")
		}
	}
}

// A batchFault disturbs a batch that is under way. begin starts the fault and returns the context for the batch; end
// stops the fault.
type batchFault struct {
	what  string
	begin func() (ctx context.Context, end func())
}

// cutInsideBatch makes all faults one after the other. If Inspect returns no TTL, each fault takes long, because only
// the expiry of a short TTL shows which leases were renewed. The check then makes only a few faults, at the same time,
// each with a smaller batch.
func cutInsideBatch(t *trial) {
	t.batcher()
	n := t.batchSize(8)
	if t.inspectHasTTL() {
		b := t.newCutBatch(n, true)
		b.disturbAll(func(faults []batchFault) []batchFault { return faults })
		return
	}
	const few = 3
	each := max(n/few, min(n, 2*turns))
	if few*each > t.large {
		each = t.large / few
	}
	t.together(few, func(i int) {
		b := t.newCutBatch(each, false)
		b.disturbAll(func(faults []batchFault) []batchFault { return faults[i : i+1] })
	})
}

// A cutBatch is a large batch of one client, renewed again and again.
type cutBatch struct {
	*trial
	batcher backend.BatchRenewer
	link    Link
	grants  []*grant
	hasTTL  bool          // Inspect returns TTLs
	ttl     time.Duration // of the latest batch
}

func (t *trial) newCutBatch(n int, hasTTL bool) *cutBatch {
	c, link := t.linked()
	t.usable(c)
	b := &cutBatch{trial: t, batcher: c.(backend.BatchRenewer), link: link, hasTTL: hasTTL, ttl: t.long()}
	b.grants = t.acquireMany(c, n, b.ttl)
	return b
}

// disturbAll renews the batch under each of the faults that choose returns.
func (b *cutBatch) disturbAll(choose func([]batchFault) []batchFault) {
	const (
		atMost = 3 * time.Second // slow stores get fewer faults
		least  = 4
	)
	from := [2]int64{b.link.Passed(ToStore), b.link.Passed(FromStore)}
	b.renewsAll(b.ttl)
	size := [2]int64{b.link.Passed(ToStore) - from[ToStore], b.link.Passed(FromStore) - from[FromStore]}
	end := time.Now().Add(atMost)
	for i, f := range choose(b.faults(size)) {
		if i < least || time.Now().Before(end) {
			b.disturb(f)
		}
	}
	b.notef("%d leases, %d bytes to the store and %d back", len(b.grants), size[ToStore], size[FromStore])
	b.renewsAll(b.long())
	b.inTurns(len(b.grants), func(i int) { b.release(b.grants[i]) })
}

// faults returns the faults to make: cuts in the middle of a batch, contexts that end there, and refused connections.
// size is the number of bytes of a batch in each direction. The first four faults differ most. A slow store may get no
// others.
func (b *cutBatch) faults(size [2]int64) (list []batchFault) {
	cut := func(d Direction, share float64) {
		n := int64(float64(size[d]) * share)
		list = append(list, batchFault{"whose connection broke " + d.String(), func() (context.Context, func()) {
			happened := b.link.CutAfter(d, n)
			return b.ctx, func() {
				if !b.within(tick, happened) {
					b.notef("no cut after %d bytes %v", n, d)
				}
				b.link.Heal()
			}
		}})
	}
	end := func(patience time.Duration) {
		list = append(list, batchFault{"whose context ended", func() (context.Context, func()) {
			const answer = 30 * time.Millisecond
			b.link.Delay(FromStore, answer)
			ctx, cancel := context.WithTimeout(b.ctx, patience)
			return ctx, func() { cancel(); b.link.Heal() }
		}})
	}
	refuse := batchFault{"whose client could not connect", func() (context.Context, func()) {
		const patience = 300 * time.Millisecond
		b.link.Refuse()
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		return ctx, func() { cancel(); b.link.Heal() }
	}}
	cut(FromStore, 0.5)
	cut(ToStore, 0.5)
	end(100 * time.Millisecond)
	list = append(list, refuse)
	for _, share := range []float64{0.03, 0.97, 0.25, 0.75} {
		cut(FromStore, share)
		cut(ToStore, share)
	}
	end(40 * time.Millisecond)
	return list
}

// disturb renews the batch under f, and checks that the errors agree with the state of the store.
func (b *cutBatch) disturb(f batchFault) {
	t, n := b.trial, len(b.grants)
	brief := t.g.Round(t.passing() + t.short())
	if !b.hasTTL {
		b.renewsAll(brief) // leases that the disturbed batch does not renew expire soon
	}
	old := make([]time.Time, n)
	for i, g := range b.grants {
		old[i] = g.Deadline()
	}
	b.ttl = min(b.ttl+t.g.Round(t.long()/20), t.longest())
	ctx, end := f.begin()
	before := time.Now()
	errs := b.batcher.RenewBatch(ctx, toBatch(b.ttl, b.grants...))
	after := time.Now()
	end()
	if len(errs) != n {
		t.fatalf("a batch of %d leases %s has %d errors", n, f.what, len(errs))
	}
	if b.hasTTL {
		t.usable(b.grants[0].client)
	} else {
		t.outlast(t.lastRefusal(before, brief))
	}
	t.inTurns(n, func(i int) {
		g, err := b.grants[i], errs[i]
		switch {
		case err == nil:
			b.keepsDisturbed(g, before, after, "RenewBatch "+f.what)
			t.remains(g, b.ttl, "RenewBatch "+f.what)
		case t.excused(g, err):
		case errors.Is(err, backend.ErrLost) && !after.Before(old[i]):
			t.tooLate("a lease ended before it was renewed")
		case g.Deadline().After(old[i]) && !t.deadlineSlides(g):
			t.fatalf("lease %d of a batch of %d %s: the error is %v, and the deadline has moved by %v", i, n, f.what, err,
				g.Deadline().Sub(old[i]))
		default:
			t.uncertain(ctx, err, fmt.Sprintf("renewal of live lease %d of a batch of %d %s", i, n, f.what))
			if b.hasTTL {
				t.remains(g, b.ttl, "RenewBatch "+f.what)
			}
		}
	})
	b.replace(errs)
}

// keepsDisturbed is keepsDeadline for a lease of the latest batch. A store that repeats a request without a reply may
// have sent an earlier batch twice. The first request may still arrive, and shorten the lease to that batch's TTL,
// which was at least trial.long. The deadline may allow for this.
func (b *cutBatch) keepsDisturbed(g *grant, before, after time.Time, what string) {
	b.lastsFor(g, b.long(), before, what)
	b.endsWithin(g, b.ttl, after, what)
}

// replace replaces each lease whose renewal failed. The failed request may still arrive and shorten the lease, so that
// a later renewal of it might not last for its whole TTL.
func (b *cutBatch) replace(errs []error) {
	t := b.trial
	t.usable(b.grants[0].client)
	t.inTurns(len(errs), func(i int) {
		if g := b.grants[i]; errs[i] != nil {
			_ = g.Release(t.ctx)
			b.grants[i] = t.acquire(g.client, t.newKey(), b.ttl)
		}
	})
}

// renewsAll renews the batch without a fault. It retries while the client recovers from the previous fault.
func (b *cutBatch) renewsAll(ttl time.Duration) {
	t, n := b.trial, len(b.grants)
	var failed int
	var errs []error
	if !t.poll(recovery, func() bool {
		begun := time.Now()
		errs = b.batcher.RenewBatch(t.ctx, toBatch(ttl, b.grants...))
		t.pulse.answered(time.Since(begun))
		failed = slices.IndexFunc(errs, func(err error) bool { return err != nil })
		return failed < 0 || errors.Is(errs[failed], backend.ErrLost)
	}) || failed >= 0 {
		if g := b.grants[failed]; !t.excused(g, errs[failed]) {
			t.fatalf("lease %d of a batch of %d, which is live: %v", failed, n, errs[failed])
		}
		t.skipf("leases of this store end with their connections")
	}
}
