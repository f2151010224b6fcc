package fencetest

import (
	"errors"
	"math/rand/v2"

	"github.com/anylock/lock/fence"
)

// A Scheme checks tokens at a resource that nobody has used.
type Scheme interface {
	Check(token uint64) error       // by a writer, before it acts
	CheckShared(token uint64) error // by a reader
}

// Verdict counts what a Scheme does wrong.
type Verdict struct {
	LiveRefused   int // holders whose lease had not ended
	StaleAccepted int // holders that were overtaken: a later lease that excludes theirs has acted
	Stale, Live   int // how many of each have acted or tried to
}

// Add adds the counts of another history.
func (v *Verdict) Add(w Verdict) {
	v.LiveRefused += w.LiveRefused
	v.StaleAccepted += w.StaleAccepted
	v.Stale += w.Stale
	v.Live += w.Live
}

// A lease of a history.
type histLease struct {
	token  uint64
	shared bool
	live   bool
	acted  bool
}

// History grants and ends leases on one key at random, and lets holders act while their leases live and afterwards. The
// error is one of scheme's that is not ErrStale.
//
// Grants keep rule 7 of package backend and nothing more: an exclusive token is above all tokens before and below all
// after; shared tokens between two exclusive ones have any order.
func History(random *rand.Rand, scheme Scheme, steps int) (v Verdict, err error) {
	var leases []*histLease // in the order of their grants
	base := uint64(1)       // above every exclusive token granted so far
	highest := uint64(0)    // token granted so far
	for range steps {
		switch random.IntN(4) {
		case 0, 1:
			shared := random.IntN(3) > 0
			if !grantable(leases, shared) {
				continue
			}
			l := &histLease{shared: shared, live: true}
			if shared {
				const spread = 8 // among how many numbers a reader's token is
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
		case 3: // a holder acts, whose lease may have ended
			if len(leases) == 0 {
				continue
			}
			// one of the latest: earlier ones would all be stale
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

// act lets the holder of leases[i] check its token and act if it passes.
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
