package conformance

import (
	"fmt"
	"time"
)

// chaosActor is the number of the first actor that makes faults. Each actor has its own random choices: see
// history.random.
const chaosActor = 1000

// A linkFault is a kind of fault of a link. begin starts the fault and returns its name.
type linkFault struct {
	begin func(link Link, random dice) string
	brief bool // the fault has ended when begin returns
}

var linkFaults = []linkFault{
	{begin: func(link Link, _ dice) string { link.Cut(); return "is cut" }, brief: true},
	{begin: func(link Link, _ dice) string { link.Cut(); return "is cut" }, brief: true},
	{begin: func(link Link, random dice) string {
		const most = 2000 // bytes: a few messages
		d, n := anyDirection(random), random.Int64N(most)
		link.CutAfter(d, n)
		return fmt.Sprintf("is cut after %d bytes %v", n, d)
	}},
	{begin: func(link Link, _ dice) string { link.Refuse(); return "refuses" }},
	{begin: func(link Link, random dice) string {
		d := anyDirection(random)
		link.Hold(d)
		return fmt.Sprintf("holds what goes %v", d)
	}},
	{begin: func(link Link, _ dice) string { link.Hold(ToStore); link.Hold(FromStore); return "holds everything" }},
	{begin: func(link Link, random dice) string {
		d := anyDirection(random)
		link.Drop(d)
		return fmt.Sprintf("drops what goes %v", d)
	}},
	{begin: func(link Link, random dice) string {
		const most = 80 * time.Millisecond
		d, by := anyDirection(random), random.upTo(most)
		link.Delay(d, by)
		return fmt.Sprintf("delays by %v what goes %v", by.Round(time.Millisecond), d)
	}},
}

func anyDirection(random dice) Direction { return Direction(random.IntN(2)) }

// breakLink makes all faults of a link in random order, again and again, until the given time. bound means that leases
// end with their connection.
func (h *history) breakLink(link Link, client int, bound bool, until time.Time) {
	random := h.random(chaosActor + client)
	for {
		for _, i := range random.Perm(len(linkFaults)) {
			h.sleepBetweenFaults(random)
			if !time.Now().Before(until) || h.t.ended() {
				return
			}
			from := h.now()
			what := linkFaults[i].begin(link, random)
			if !linkFaults[i].brief {
				time.Sleep(random.upTo(h.maxFaultDuration()))
			}
			link.Heal()
			h.fault(faultRecord{client: client, what: fmt.Sprintf("link of worker %d %s", client, what), from: from, to: h.now(),
				forgets: bound})
		}
	}
}

// sleepBetweenFaults sleeps for a random time between two faults.
func (h *history) sleepBetweenFaults(random dice) {
	const longest = 500 * time.Millisecond
	time.Sleep(random.upTo(min(h.t.short()/2, longest)) + tick)
}

// maxFaultDuration returns the longest duration of a fault. If TTLs are short, leases expire during the fault.
func (h *history) maxFaultDuration() time.Duration {
	const longest = 1500 * time.Millisecond
	return min(h.t.short()*7/4, longest)
}

// disturbStore restarts and freezes the store in turn, as far as the harness has the hooks. A restart may lose leases
// only if EarlyLoss says so.
func (h *history) disturbStore(until time.Time) {
	random := h.random(chaosActor)
	for n := 0; ; n++ {
		h.sleepBetweenFaults(random)
		if !time.Now().Before(until) || h.t.ended() {
			return
		}
		f := faultRecord{client: wholeStore, outage: true, from: h.now()}
		if restart := h.t.h.Restart; restart != nil && (n%2 == 0 || h.t.h.Freeze == nil) {
			f.what, f.forgets = "the store restarts", h.t.g.EarlyLoss != ""
			restart()
		} else if h.t.h.Freeze != nil {
			f.what = "the store is frozen"
			thaw := h.t.freeze()
			time.Sleep(random.upTo(h.maxFaultDuration()))
			thaw()
		}
		f.to = h.now()
		h.fault(f)
	}
}
