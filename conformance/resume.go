package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var needsResumer = Need{"backend.Resumer",
	"the store cannot return a lease to another client (backend.Resumer)",
	func(_ backend.Guarantees, h Harness) bool { _, ok := h.client.(backend.Resumer); return ok }}

// resumeGroupChecks returns the checks on leases that another client resumes. All of them need a store that is a
// Resumer.
func resumeGroupChecks() []Check {
	checks := slices.Concat(resumeChecks, resumeCloseChecks, resumeFaultChecks, resumeCutChecks)
	for i, c := range checks {
		checks[i].Needs = append([]Need{needsResumer}, c.Needs...)
	}
	return checks
}

var resumeChecks = []Check{
	{
		Name: "ResumeContinuesLease",
		Rule: "Resumer.Resume returns the lease of its owner with the same token, also after its client was closed; " +
			"the lease is renewed, excludes others and is released like any other",
		run: resumeContinuesLease,
	},
	{
		Name: "ResumeIsForTheHolder",
		Rule: "Resumer.Resume by anybody but the holder is ErrLost: it acquires nothing, and neither extends nor ends " +
			"the holder's lease",
		run: resumeIsForTheHolder,
	},
	{
		Name: "ResumeSetsTTL",
		Rule: "Resumer.Resume makes the lease end the TTL from now, later or sooner than before; the end of the first " +
			"client's lease does not end the resumed one",
		run: resumeSetsTTL,
	},
	{
		Name: "TwoClientsOfOneLease",
		Rule: "Resumer: each client of one lease may renew it; a release by one ends it for both, and a Close by one " +
			"ends nothing for the other",
		run: twoClientsOfOneLease,
	},
	{
		Name:  "ResumeOfReaders",
		Rule:  "rule 1: Resume of a shared lease extends that lease alone; a lease of the other mode is ErrLost",
		Needs: []Need{needsShared},
		run:   resumeOfReaders,
	},
	{
		Name: "ResumeRacesRelease",
		Rule: "rule 5: a Resume that meets the release of its lease does not touch the next holder",
		run:  resumeRacesRelease,
	},
	{
		Name: "ResumeRefusesBadInput",
		Rule: "Resumer.Resume: bad input is ErrInvalid before any request, a closed client is ErrClosed, an ended context " +
			"is the context's error; none of them changes the lease",
		run: resumeRefusesBadInput,
	},
}

// resumeBy makes one Resume of g by client b, and requires a reply from the store.
func (t *trial) resumeBy(b backend.Backend, g *grant, ttl time.Duration) (*grant, error) {
	r := backend.Request{Key: g.key, Owner: g.owner, TTL: ttl, Shared: g.shared}
	r.Wait = b == t.b // Resume ignores Wait
	before := time.Now()
	l, err := b.(backend.Resumer).Resume(t.ctx, r)
	after := time.Now()
	t.lateOnTimeout(err, before)
	switch {
	case err != nil && l != nil:
		t.fatalf("Resume returned a lease and the error %v", err)
	case err != nil:
		return nil, err
	case l == nil:
		t.fatalf("Resume returned neither a lease nor an error")
	}
	resumed := &grant{Lease: l, client: b, key: g.key, owner: g.owner, ttl: ttl, before: before, after: after,
		shared: g.shared}
	t.mu.Lock()
	t.grants = append(t.grants, resumed)
	t.mu.Unlock()
	return resumed, nil
}

// resume resumes g, which must be live, by client b.
func (t *trial) resume(b backend.Backend, g *grant, ttl time.Duration) *grant {
	before := time.Now()
	resumed, err := t.resumeBy(b, g, ttl)
	switch lost := errors.Is(err, backend.ErrLost); {
	case lost && !g.live(time.Now()):
		t.tooLate("a lease ended before it was resumed")
	case lost && !time.Now().Before(backend.Deadline(before, ttl)):
		t.tooLate("Resume took longer than the TTL that it requested")
	case err != nil:
		t.fatalf("Resume of a live lease: %v", err)
	}
	if resumed.Token() != g.Token() {
		t.fatalf("the resumed lease has token %d, the lease was granted token %d", resumed.Token(), g.Token())
	}
	t.keepsDeadline(resumed, ttl, resumed.before, resumed.after, "Resume")
	return resumed
}

// notResumed calls Resume for a lease that its owner does not hold, which must fail with ErrLost.
func (t *trial) notResumed(b backend.Backend, r backend.Request, what string) {
	t.wantLost(what, func() error {
		_, err := b.(backend.Resumer).Resume(t.ctx, r)
		return err
	})
}

func resumeContinuesLease(t *trial) {
	ways := t.renewals()
	t.inChunks(len(ways)*2, 2, func(i int) {
		first := t.open()
		g := t.acquire(first, t.newKey(), t.long())
		if i%2 == 1 { // the next lease of the key, which its owner has waited for
			waiter := t.wait(first, g.key, t.long())
			t.arrived(g.key, 1)
			t.release(g)
			g = waiter.granted(t, t.handOff(), "after release")
		}
		t.closes(first)
		w := t.wait(t.a, g.key, t.long())
		t.arrived(g.key, 1)
		resumed := t.resume(t.b, g, t.long())
		t.describes(resumed, t.long())
		t.heldBy(resumed)
		t.renewBy(resumed, t.long(), func() error { return ways[i/2].renew(t.ctx, resumed, t.long()) })
		w.stillWaits(t, resumed, t.rule)
		t.release(resumed)
		if resumed.gone() {
			t.breaks(6, "Lost of a resumed lease is closed after a clean release")
		}
		next := w.granted(t, t.handOff(), "after the release of a resumed lease")
		if t.g.Fencing > backend.FencingNone && next.Token() <= g.Token() {
			t.breaks(7, "token %d was granted after %d", next.Token(), g.Token())
		}
		t.heldBy(next)
		t.release(next)
	})
}

func resumeSetsTTL(t *trial) {
	for _, shared := range t.modes() {
		t.resumesForLittle(t.getterOf(shared))
	}
	t.inChunks(3, 2, func(i int) {
		if i == 2 {
			t.resumesOwn()
			return
		}
		if i == 0 { // the lease ends later
			g := t.acquire(t.a, t.newKey(), t.short())
			resumed := t.resume(t.b, g, t.long())
			t.expire(g)
			t.isLost(g.Release(t.ctx), "Release by the first client, whose own deadline has passed")
			t.heldBy(resumed)
			t.renew(resumed, t.long())
			t.release(resumed)
			return
		}
		g := t.acquire(t.a, t.newKey(), t.long()) // the lease ends sooner
		w := t.wait(t.a, g.key, t.long())
		t.arrived(g.key, 1)
		resumed := t.resume(t.b, g, t.short())
		next := w.granted(t, t.g.Round(t.short())+t.handOff(), "after Resume to a shorter TTL")
		if early := resumed.Deadline().Sub(next.after); early > 0 {
			t.doubleGrant("the key of a resumed lease was granted %v before its deadline", early)
		}
		if !t.within(soon, resumed.Lost()) {
			t.breaks(6, "Lost of a resumed lease is open after its deadline")
		}
		t.release(next)
	})
}

// resumesOwn resumes a lease by its own client, which then has the lease twice. Unless Resume has returned the first
// lease, that is lost at its own deadline.
func (t *trial) resumesOwn() {
	g := t.acquire(t.a, t.newKey(), t.short())
	end := g.Deadline()
	resumed := t.resume(t.a, g, t.long())
	if t.sameDeadline(g, end) {
		t.losesOnTime(g)
	}
	t.heldBy(resumed)
	t.release(resumed)
}

// resumesForLittle resumes a lease, which get acquires, for less than MinTTL, which the store rounds up.
func (t *trial) resumesForLittle(get getter) {
	const least, attempts = 8 * time.Millisecond, 20 // a shorter lease ends before it can be inspected
	ttl := t.g.MinTTL / 2
	granted := t.g.Round(ttl)
	for n := 0; ttl > 0 && granted >= least; n++ {
		if n == attempts {
			t.tooLate("Resume for %v: no answer came in time", ttl)
		}
		before := time.Now()
		resumed, err := t.resumeBy(t.b, get(t.a, t.newKey(), t.long()), ttl)
		after, end := time.Now(), backend.Deadline(before, t.kept(granted))
		switch {
		case errors.Is(err, backend.ErrLost) && !after.Before(end):
			continue
		case err != nil:
			t.fatalf("Resume for %v, which is rounded up to %v: %v, %v after it was sent", ttl, granted, err,
				after.Sub(before))
		case resumed.Deadline().Before(end):
			t.fatalf("Resume for %v, which is rounded up to %v: the deadline is %v away", ttl, granted,
				resumed.Deadline().Sub(before))
		}
		return
	}
}

// twoClientsOfOneLease lets the client that acquired a lease, and the client that resumed it, use the lease side by
// side. In some cases both are the same client.
func twoClientsOfOneLease(t *trial) {
	const cases = 4
	modes := t.modes()
	t.inChunks(cases*len(modes), 2, func(i int) {
		g := t.getterOf(modes[i/cases])(t.a, t.newKey(), t.long())
		i %= cases
		both := []*grant{g, t.resume(t.client(i), g, t.long())}
		for range 2 {
			for _, l := range both {
				t.renew(l, t.long())
			}
		}
		t.renewsAtOnce(both)
		closed := t.open()
		t.resume(closed, g, t.long())
		t.closes(closed)
		t.heldBy(g)
		ends, other := both[i/2], both[1-i/2]
		t.renew(ends, t.long())
		t.release(ends)
		next := t.acquire(t.b, g.key, t.long())
		t.wantLost("Renew of a lease that its other client has released", func() error {
			return other.Renew(t.ctx, t.long())
		})
		if !t.within(soon, other.Lost()) {
			t.breaks(6, "Lost is open after Renew was ErrLost")
		}
		t.isLost(other.Release(t.ctx), "Release of a lease that its other client has released")
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
	})
}

// renewsAtOnce renews both leases, which are one at the store, at the same moment, again and again.
func (t *trial) renewsAtOnce(both []*grant) {
	const (
		times  = 12
		atMost = 500 * time.Millisecond
	)
	ways := t.renewals()
	for n := range t.rounds(times, time.Now().Add(atMost)) {
		t.together(len(both), func(i int) { both[i].renews(t, ways[(n+i)%len(ways)], t.long()) })
	}
}

// resumeRacesRelease races Resume against the release of its lease, while another owner waits for the key.
func resumeRacesRelease(t *trial) {
	const keys = 8
	modes := t.modes()
	t.inChunks(keys*len(modes), 3, func(i int) {
		g := t.getterOf(modes[i/keys])(t.a, t.newKey(), t.long())
		w := t.wait(t.a, g.key, t.long())
		t.arrived(g.key, 1)
		begun := time.Now()
		t.together(2, func(j int) {
			if j == 0 {
				time.Sleep(rand.N(2 * time.Millisecond)) // sleeps: the two meet at another moment each time
				err := g.Release(t.ctx)
				t.lateOnTimeout(err, begun)
				if errors.Is(err, backend.ErrLost) && !time.Now().Before(backend.Deadline(begun, t.short())) {
					t.lateFor(ttlRule, false, "a lease that Resume had shortened ended before it was released")
				}
				if err != nil {
					t.breaksText(releaseRule, "Release of a live lease: %v", err)
				}
				return
			}
			if _, err := t.resumeBy(t.b, g, t.short()); err != nil {
				t.isLost(err, "Resume that met the release of its lease")
			}
		})
		next := w.granted(t, t.handOff(), "after a release that met a Resume")
		t.describes(next, t.long())
		t.outlast(t.lastRefusal(time.Now(), t.short()))
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
	})
}

func resumeRefusesBadInput(t *trial) {
	for _, shared := range t.modes() {
		t.refusesBadResume(t.getterOf(shared)(t.a, t.newKey(), t.long()))
	}
}

// refusesBadResume calls Resume with bad input for g, and releases g.
func (t *trial) refusesBadResume(g *grant) {
	good := backend.Request{Key: g.key, Owner: g.owner, TTL: t.long(), Shared: g.shared}
	for what, change := range map[string]func(*backend.Request){
		"TTL 0":             func(r *backend.Request) { r.TTL = 0 },
		"negative TTL":      func(r *backend.Request) { r.TTL = -time.Second },
		"TTL over MaxTTL":   func(r *backend.Request) { r.TTL = t.longest() + 1 },
		"empty owner":       func(r *backend.Request) { r.Owner = "" },
		"owner of 256":      func(r *backend.Request) { r.Owner = strings.Repeat("o", backend.MaxOwnerLen+1) },
		"empty key":         func(r *backend.Request) { r.Key = "" },
		"key of 1025 bytes": func(r *backend.Request) { r.Key = strings.Repeat("k", backend.MaxKeyLen+1) },
	} {
		r := good
		change(&r)
		if _, err := t.b.(backend.Resumer).Resume(t.ctx, r); !errors.Is(err, backend.ErrInvalid) {
			t.errorf("Resume with %s: %v, want ErrInvalid", what, err)
		}
	}
	if !t.g.Shared {
		r := good
		r.Shared = true
		if _, err := t.b.(backend.Resumer).Resume(t.ctx, r); !errors.Is(err, backend.ErrUnsupported) {
			t.errorf("Resume of a shared lease, which the store does not promise: %v, want ErrUnsupported", err)
		}
	}
	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	if _, err := t.b.(backend.Resumer).Resume(ended, good); !errors.Is(err, context.Canceled) {
		t.errorf("Resume with an ended context: %v, want context.Canceled", err)
	}
	closed := t.open()
	t.closes(closed)
	_, err := closed.(backend.Resumer).Resume(t.ctx, good)
	t.isClosed(err, "Resume after Close")
	t.describes(g, t.long())
	t.heldBy(g)
	t.renew(g, t.long())
	t.release(g)
	t.free(t.b, g.key, "after bad input to Resume, and release")
}
