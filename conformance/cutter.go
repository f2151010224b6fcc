package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	cutters   = 6               // clients that are cut at the same time
	cutTime   = 4 * time.Second // time for cuts at places other than the first and the last
	cutAlways = 4               // how many of the first, and of the last, places are always cut
	cutOthers = 16              // how many other places are always cut, even if a client takes a second to reconnect
	cutTries  = 3               // tries per place, because requests vary in length
)

// A place is where connections break: after n bytes in one direction, counted from the beginning of a request.
type place struct {
	d Direction
	n int64
}

// A cutter is a client whose connections are cut during one kind of request.
type cutter struct {
	t      *trial
	client backend.Backend
	link   Link
	bound  bool // leases of this store end with their connection
	round  int

	at       *place // nil while the request is measured
	from     [2]int64
	long     [2]int64 // bytes of the request, per direction
	happened <-chan struct{}
	hit      bool
}

// cutEverywhere makes request again and again, with a cut at each byte of its requests and replies. On a slow store, it
// cuts at fewer bytes.
func (t *trial) cutEverywhere(request func(*cutter)) {
	all := make([]*cutter, max(1, min(cutters, t.h.Many/2)))
	for i := range all {
		c, link := t.linked()
		all[i] = &cutter{t: t, client: c, link: link}
	}
	first := all[0]
	first.measure(request)
	bound := first.bindsLeases()
	places := placesIn(first.long)
	least := 0
	for _, p := range places {
		if l := first.long[p.d]; p.n < cutAlways || p.n > l-cutAlways {
			least++
		}
	}
	least += cutOthers
	var next, cut, hit atomic.Int64
	end := time.Now().Add(cutTime)
	t.together(len(all), func(i int) {
		x := all[i]
		x.bound = bound
		for !t.ended() {
			n := int(next.Add(1)) - 1
			if n >= len(places) || n >= least && time.Now().After(end) {
				return
			}
			cut.Add(1)
			if x.cutAt(places[n], request) {
				hit.Add(1)
			}
		}
	})
	t.notef("%d bytes to the store and %d back; cut at %d of %d places, which was in time for %d",
		first.long[ToStore], first.long[FromStore], cut.Load(), len(places), hit.Load())
	if hit.Load() == 0 {
		t.fatalf("no cut has happened: the client does not go through the link of Harness.Linked")
	}
}

// placesIn lists the places in a request and its reply. long is the number of bytes in each direction. The first and
// last places come first. The others follow in an order in which the places before any point are spread evenly.
func placesIn(long [2]int64) []place {
	var ends, others []place
	for _, d := range []Direction{ToStore, FromStore} {
		for n := range long[d] + 1 {
			if n < cutAlways || n > long[d]-cutAlways {
				ends = append(ends, place{d, n})
			} else {
				others = append(others, place{d, n})
			}
		}
	}
	return append(ends, evenly(others)...)
}

// evenly orders places by steps of the golden ratio, so that the places before any point of the list are spread evenly.
func evenly(places []place) []place {
	n := len(places)
	ordered := make([]place, 0, n)
	taken := make([]bool, n)
	for at := 0.0; len(ordered) < n; at += 0.6180339887498949 {
		i := int((at - float64(int(at))) * float64(n))
		for taken[i] {
			i = (i + 1) % n
		}
		taken[i] = true
		ordered = append(ordered, places[i])
	}
	return ordered
}

// measure makes the request a few times without a cut, and keeps the smallest size. A client may send more than the
// request, for example when it connects.
func (x *cutter) measure(request func(*cutter)) {
	const times = 3
	var least [2]int64
	for i := range times {
		x.t.usable(x.client)
		request(x)
		for d, l := range x.long {
			if i == 0 || l < least[d] {
				least[d] = l
			}
		}
	}
	x.long = least
}

// cutAt makes the request with a cut at p, and reports whether the cut happened during the request. It tries several
// times.
func (x *cutter) cutAt(p place, request func(*cutter)) bool {
	x.at = &p
	for range cutTries {
		x.hit = false
		x.t.usable(x.client)
		request(x)
		if x.round++; x.hit {
			return true
		}
	}
	return false
}

// begin marks the beginning of the request that is cut.
func (x *cutter) begin() {
	if x.at == nil {
		x.from = [2]int64{x.link.Passed(ToStore), x.link.Passed(FromStore)}
		return
	}
	x.happened = x.link.CutAfter(x.at.d, x.at.n)
}

// end marks the end of the request. It measures the request, or heals the link if the request was cut.
func (x *cutter) end() {
	if x.at == nil {
		for d, from := range x.from {
			x.long[d] = x.link.Passed(Direction(d)) - from
		}
		return
	}
	x.link.Heal()
	x.hit = x.isCut()
}

func (x *cutter) isCut() bool {
	select {
	case <-x.happened:
		return true
	default:
		return false
	}
}

// bindsLeases tests whether a broken connection ends the leases that were granted through it. Only a store with
// EarlyLoss may do that.
func (x *cutter) bindsLeases() bool {
	t := x.t
	if t.g.EarlyLoss == "" {
		return false
	}
	t.usable(x.client)
	g := x.acquire()
	x.link.Cut()
	return t.within(1500*time.Millisecond*time.Duration(t.stretch), g.Lost())
}

// where describes the place of the cut.
func (x *cutter) where() string {
	if x.at == nil {
		return ""
	}
	return fmt.Sprintf(", cut after %d bytes %v", x.at.n, x.at.d)
}

// shared returns the mode of the next lease: every other pair of rounds is of readers, if the store has them.
func (x *cutter) shared() bool { return x.at != nil && x.t.g.Shared && x.round/2%2 == 1 }

// acquire acquires a fresh key. It retries, because the client may notice only now that a connection is broken.
func (x *cutter) acquire() *grant {
	var g *grant
	var err error
	ok := x.t.poll(recovery, func() bool {
		g, err = x.t.request(x.t.ctx, x.client, backend.Request{Key: x.t.newKey(), Owner: backend.NewOwner(),
			TTL: x.t.long(), Shared: x.shared()})
		return err == nil
	})
	if !ok {
		x.t.fatalf("Acquire of free keys, %v after an outage: %v", recovery, err)
	}
	return g
}

// contextLives fails if err, of a request with ctx, is a context's error although ctx has not ended.
func (t *trial) contextLives(ctx context.Context, err error, what string) {
	if kit.IsContextError(err) && !kit.Ended(ctx) {
		t.breaks(4, "%s: %v, although its context has not ended", what, err)
	}
}

// unsure fails if err, of a request that was cut, reports a certain outcome.
func (x *cutter) unsure(err error, what string) {
	x.t.contextLives(x.t.ctx, err, what+x.where())
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	for _, certain := range []error{
		backend.ErrHeld, backend.ErrLost, backend.ErrClosed, backend.ErrInvalid, errors.ErrUnsupported,
	} {
		if certain == backend.ErrHeld && ended {
			continue // the last refusal of a wait
		}
		if errors.Is(err, certain) {
			x.t.fatalf("%s%s: %v, which is not true", what, x.where(), err)
		}
	}
}

// ended reports whether g has ended with its connection, in a store whose leases do so.
func (x *cutter) ended(g *grant) bool { return x.bound && x.t.within(soon, g.Lost()) }

// holds checks that the store holds g until its deadline. It returns false if g has ended with its connection.
func (x *cutter) holds(g *grant) bool {
	t := x.t
	if x.bound {
		other, err := t.requestKey(t.ctx, t.b, g.key, g.ttl, false)
		if err == nil && !x.ended(g) {
			t.fatalf("another owner has the key%s, and Lost is not closed %v after its connection broke", x.where(), soon)
		}
		if other != nil {
			t.release(other)
		}
		return err != nil
	}
	t.refused(t.b, g)
	if g.gone() && g.live(time.Now()) {
		t.fatalf("Lost is closed, %v before the deadline%s", time.Until(g.Deadline()), x.where())
	}
	deadline := g.Deadline()
	h := t.inspect(g.key)
	if h.Owner != g.owner || h.TTL == 0 || t.deadlineSlides(g) {
		return true
	}
	if early := deadline.Sub(time.Now().Add(h.TTL + t.g.Granularity)); early > 0 {
		t.fatalf("the store ends the lease %v before its deadline%s", early, x.where())
	}
	return true
}

// releaseUntilFree releases g through connections that may be broken, and waits until its key is free.
func (x *cutter) releaseUntilFree(g *grant) {
	if err := g.Release(x.t.ctx); errors.Is(err, backend.ErrLost) && !x.ended(g) {
		x.t.fatalf("Release of a live lease%s before: %v", x.where(), err)
	}
	x.t.becomesFree(x.t.b, g.key, recovery, "after release")
}
