package fencetest

import (
	"errors"
	"math/rand/v2"

	"github.com/anylock/lock/fence"
)

// A Scheme checks tokens at a resource that is unused at first.
type Scheme interface {
	Check(token uint64) error       // by a writer, before it acts
	CheckShared(token uint64) error // by a reader
}

// Verdict counts the errors of a Scheme.
type Verdict struct {
	LiveRefused   int // holders that were refused although their lease had not ended
	StaleAccepted int // stale holders that were accepted: a later lease that excludes theirs has acted
	Stale, Live   int // the number of checks by stale and by live holders
}

// Add adds the counts of another history.
func (v *Verdict) Add(w Verdict) {
	v.LiveRefused += w.LiveRefused
	v.StaleAccepted += w.StaleAccepted
	v.Stale += w.Stale
	v.Live += w.Live
}

// A histLease is a lease of a history.
type histLease struct {
	token  uint64
	shared bool
	live   bool
	acted  bool
}

// History grants and ends leases on one key at random. It lets holders act while their leases are live and afterwards.
// It returns an error if scheme fails with another error than ErrStale.
//
// Grants obey rule 7 of package backend and nothing more: an exclusive token is above all earlier tokens and below all
// later ones. Shared tokens between two exclusive tokens have any order.
func History(random *rand.Rand, scheme Scheme, steps int) (v Verdict, err error) {
	var leases []*histLease // in the order of their grants
	base := uint64(1)       // above every exclusive token granted so far
	highest := uint64(0)    // the highest token granted so far
	for range steps {
		switch random.IntN(4) {
		case 0, 1:
			shared := random.IntN(3) > 0
			if !grantable(leases, shared) {
				continue
			}
			l := &histLease{shared: shared, live: true}
			if shared {
				const spread = 8 // the number of values from which a reader's token is drawn
				l.token = base + random.Uint64N(spread)
				highest = max(highest, l.token)
			} else {
				l.token = highest + 1
				highest, base = l.token, l.token+1
			}
			leases = append(leases, l)
		case 2: // a lease ends
			if len(leases) > 0 {
				leases[random.IntN(len(leases))].live = false
			}
		case 3: // a holder acts; its lease may have ended
			if len(leases) == 0 {
				continue
			}
			// draw one of the latest leases, because earlier ones would all be stale
			const latest = 6
			first := max(0, len(leases)-latest)
			i := first + random.IntN(len(leases)-first)
			if err := v.act(leases, i, scheme); err != nil {
				return v, err
			}
		}
	}
	return v, nil
}

func grantable(leases []*histLease, shared bool) bool {
	for _, l := range leases {
		if l.live && !(shared && l.shared) {
			return false
		}
	}
	return true
}

// act lets the holder of leases[i] check its token, and act if the check passes.
func (v *Verdict) act(leases []*histLease, i int, scheme Scheme) error {
	l, check := leases[i], scheme.Check
	if l.shared {
		check = scheme.CheckShared
	}
	err := check(l.token)
	accepted := err == nil
	if !accepted && !errors.Is(err, fence.ErrStale) {
		return err
	}
	overtaken := false
	for _, later := range leases[i+1:] {
		overtaken = overtaken || later.acted && !(l.shared && later.shared)
	}
	switch {
	case l.live:
		v.Live++
	case overtaken:
		v.Stale++
	}
	if l.live && !accepted {
		v.LiveRefused++
	}
	if overtaken && accepted {
		v.StaleAccepted++
	}
	l.acted = l.acted || accepted
	return nil
}
