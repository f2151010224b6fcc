package journal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Verdict is the result of checking a journal.
type Verdict struct {
	Violations []string // overlaps of leases that exclude each other, and tokens out of order
	EarlyLoss  []string // overlaps caused by a reset of the first holder's connections
	Errors     []string // errors that no fault explains

	Readers, Writers int            // numbers of leases
	Abreast          int            // most readers of a key at the same time
	Ended            map[string]int // how leases ended, as in "writer killed"
	Faults           map[string]int
	StoppedHolding   int // leases whose process was stopped while they were live
}

// Check checks the journal.
func (j *Journal) Check() *Verdict {
	v := &Verdict{Errors: j.errors, Ended: make(map[string]int), Faults: make(map[string]int)}
	byKey := make(map[string][]*lease)
	for _, l := range j.leases {
		byKey[l.key] = append(byKey[l.key], l)
		mode := "reader "
		if l.writer {
			v.Writers++
			mode = "writer "
		} else {
			v.Readers++
		}
		v.Ended[mode+l.how]++
		if j.during(l, Stop) {
			v.StoppedHolding++
		}
	}
	for _, f := range j.faults {
		v.Faults[f.what]++
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		leases := byKey[key]
		slices.SortStableFunc(leases, func(a, b *lease) int { return cmp.Compare(a.since, b.since) })
		j.checkOverlaps(v, leases)
		checkTokens(v, leases)
		v.Abreast = max(v.Abreast, abreast(leases))
	}
	return v
}

// during reports whether the lease's process had the fault while the lease lasted.
func (j *Journal) during(l *lease, what string) bool {
	return slices.ContainsFunc(j.faults, func(f fault) bool {
		return f.pid == l.pid && f.what == what && l.since <= f.at && f.at < l.deadline
	})
}

// checkOverlaps compares each lease with the conflicting leases that began earlier and had not ended when it began. The
// leases belong to one key, and are ordered by their start.
func (j *Journal) checkOverlaps(v *Verdict, leases []*lease) {
	var live []*lease
	for _, l := range leases {
		live = slices.DeleteFunc(live, func(a *lease) bool { return a.until() <= l.since })
		for _, a := range live {
			if !a.writer && !l.writer {
				continue
			}
			text := fmt.Sprintf("granted %d ns before the end of another:\n\t%v\n\t%v", a.until()-l.since, a, l)
			if a.how != "released" && j.during(a, Reset) {
				v.EarlyLoss = append(v.EarlyLoss, text)
			} else {
				v.Violations = append(v.Violations, text)
			}
		}
		if l.since < l.until() {
			live = append(live, l)
		}
	}
}

// checkTokens checks that a writer's token is above all earlier tokens, and that every later token is above it.
func checkTokens(v *Verdict, leases []*lease) {
	var highest, writer *lease
	for _, l := range leases {
		below := writer
		if l.writer {
			below = highest
		}
		if below != nil && l.token <= below.token {
			v.Violations = append(v.Violations, fmt.Sprintf("token out of order:\n\t%v\n\t%v", below, l))
		}
		if highest == nil || l.token > highest.token {
			highest = l
		}
		if l.writer && (writer == nil || l.token > writer.token) {
			writer = l
		}
	}
}

// abreast returns the largest number of readers at the same time.
func abreast(leases []*lease) (most int) {
	var live []*lease
	for _, l := range leases {
		live = slices.DeleteFunc(live, func(a *lease) bool { return a.until() <= l.since })
		if !l.writer {
			live = append(live, l)
		}
		most = max(most, len(live))
	}
	return most
}

// String returns a summary, and then the first violations, early losses and errors.
func (v *Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "violations: %d; overlaps by early loss after a reset: %d; unexplained errors: %d\n",
		len(v.Violations), len(v.EarlyLoss), len(v.Errors))
	fmt.Fprintf(&b, "leases of readers: %d, of writers: %d; readers at once: %d; stopped while they held: %d\n",
		v.Readers, v.Writers, v.Abreast, v.StoppedHolding)
	fmt.Fprintf(&b, "ends: %s\nfaults: %s\n", counts(v.Ended), counts(v.Faults))
	for _, list := range [][]string{v.Violations, v.EarlyLoss, v.Errors} {
		for _, text := range list[:min(len(list), 20)] {
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

func counts(m map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(list, ", ")
}
