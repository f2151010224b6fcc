package lock

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// Guarantees describes what a store promises.
type Guarantees = backend.Guarantees

// Fencing describes which events the order of tokens survives. A higher value includes the lower ones.
type Fencing = backend.Fencing

// Reach describes how far apart owners may be that exclude each other. A higher value includes the lower ones.
type Reach = backend.Reach

// Values for Need.Fencing and Need.Reach.
const (
	FencingNone    = backend.FencingNone    // no tokens
	FencingProcess = backend.FencingProcess // tokens increase while this process lives
	FencingRestart = backend.FencingRestart // tokens increase across restarts of the store
	FencingLoss    = backend.FencingLoss    // tokens increase across loss of the store's data

	ReachProcess = backend.ReachProcess // goroutines of one process exclude each other
	ReachHost    = backend.ReachHost    // processes of one host exclude each other
	ReachNetwork = backend.ReachNetwork // hosts that share the store exclude each other
)

// A Need lists what a store must promise. The zero value of a field requires nothing. A Need has a text form for Config
// and the command, a list like "fifo,reach=network,max-late=500ms".
type Need struct {
	FIFO         bool // waiters get the key in the order of their arrival: "fifo"
	Push         bool // waiters are notified and do not poll: "push"
	Linearizable bool // owners exclude each other no matter what fails in the store: "linearizable"
	NoEarlyLoss  bool // the store never drops a live lease: "no-early-loss"
	Shared       bool // the store has shared leases: "shared"
	// a holder is notified soon, not only at its next renewal, that its lease was removed: "reports-loss"
	ReportsLoss bool
	Fencing     Fencing       // tokens stay in order across at least this: "fencing=restart"
	Reach       Reach         // owners this far apart exclude each other: "reach=network"
	MaxLate     time.Duration // a dead holder's key is free no later than this after the TTL: "max-late=500ms"
	MinTTL      time.Duration // the store grants TTLs this short; it may round up to its Granularity: "min-ttl=1s"
	MaxTTL      time.Duration // the store grants TTLs this long: "max-ttl=1h"
	MaxSilence  time.Duration // a lease with a TTL this long survives a disconnection this long: "max-silence=1m"
	MaxLeases   int           // one Locker can hold this many leases at once: "max-leases=100"
}

// A requirement is one field of a Need, compared with what a store offers.
type requirement struct {
	name    string
	field   any    // a pointer to the field
	met     bool   // the store offers what the field requires
	instead string // what the store offers otherwise
}

// requirements returns a row for each field of n, compared with g.
func (n *Need) requirements(g Guarantees) []requirement {
	longest := cmp.Or(g.MaxTTL, backend.MaxTTL)
	return []requirement{
		{"fifo", &n.FIFO, g.FIFO, "waiters are not served in order"},
		{"push", &n.Push, g.Wake == backend.WakePush, "waiters poll"},
		{"linearizable", &n.Linearizable, g.Consistency == backend.Linearizable,
			"exclusion is best effort when the store fails"},
		{"no-early-loss", &n.NoEarlyLoss, g.EarlyLoss == "", "a live lease may be dropped: " + g.EarlyLoss},
		{"shared", &n.Shared, g.Shared, "the store has no shared leases"},
		{"reports-loss", &n.ReportsLoss, g.ReportsLoss,
			"a holder whose lease somebody removes learns of it at its next renewal"},
		{"fencing", (*int)(&n.Fencing), g.Fencing >= n.Fencing, fmt.Sprintf("fencing survives: %v", g.Fencing)},
		{"reach", (*int)(&n.Reach), g.Reach >= n.Reach, fmt.Sprintf("owners exclude each other only within one %v", g.Reach)},
		{"max-late", &n.MaxLate, g.MaxLate <= n.MaxLate, fmt.Sprintf("max-late is %v", g.MaxLate)},
		{"min-ttl", &n.MinTTL, g.MinTTL <= n.MinTTL, fmt.Sprintf("min-ttl is %v", g.MinTTL)},
		{"max-ttl", &n.MaxTTL, longest >= n.MaxTTL, fmt.Sprintf("max-ttl is %v", longest)},
		{"max-silence", &n.MaxSilence, g.MaxSilence == 0 || g.MaxSilence >= n.MaxSilence,
			fmt.Sprintf("max-silence is %v", g.MaxSilence)},
		{"max-leases", &n.MaxLeases, g.MaxLeases == 0 || g.MaxLeases >= n.MaxLeases,
			fmt.Sprintf("at most %d leases can be held at once", g.MaxLeases)},
	}
}

// levels has the names of a requirement's levels in the text form of a Need, the lowest first.
var levels = map[string][]string{
	"fencing": {"none", "process", "restart", "loss"},
	"reach":   {"process", "host", "network"},
}

// text returns the field in the text form of a Need. set means that the field requires something.
func (r requirement) text() (text string, set bool) {
	switch v := r.field.(type) {
	case *bool:
		return r.name, *v
	case *time.Duration:
		text, set = v.String(), *v != 0
	case *int:
		text, set = strconv.Itoa(*v), *v != 0
		if names := levels[r.name]; *v >= 0 && *v < len(names) {
			text = names[*v]
		}
	}
	return r.name + "=" + text, set
}

// parse sets the field to value, and reports whether value is valid.
func (r requirement) parse(value string) bool {
	var err error
	switch v := r.field.(type) {
	case *bool:
		*v = true
		return value == ""
	case *time.Duration:
		*v, err = time.ParseDuration(value)
		return err == nil && *v > 0
	case *int:
		if names := levels[r.name]; names != nil {
			*v = slices.Index(names, value)
			return *v >= 0
		}
		*v, err = strconv.Atoi(value)
		return err == nil && *v > 0
	}
	return false
}

// String returns the text form of n.
func (n Need) String() string {
	var list []string
	for _, r := range n.requirements(Guarantees{}) {
		if text, set := r.text(); set {
			list = append(list, text)
		}
	}
	return strings.Join(list, ",")
}

// MarshalText implements encoding.TextMarshaler with String.
func (n Need) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. The error is ErrInvalid if an entry of the list is unknown, or a
// number or duration in it is not positive.
func (n *Need) UnmarshalText(text []byte) error {
	var parsed Need
	rows := parsed.requirements(Guarantees{})
	for entry := range strings.SplitSeq(string(text), ",") {
		if len(text) == 0 {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		i := slices.IndexFunc(rows, func(r requirement) bool { return r.name == name })
		if i < 0 || !rows[i].parse(value) {
			return fmt.Errorf("%w: unknown requirement %q", ErrInvalid, entry)
		}
	}
	*n = parsed
	return nil
}

// unmet returns an error that lists what g lacks, or nil if g lacks nothing. A Need whose text form cannot be parsed is
// ErrInvalid.
func unmet(g Guarantees, require []Need) error {
	var missing []string
	for _, n := range require {
		if err := new(Need).UnmarshalText([]byte(n.String())); err != nil {
			return err
		}
		for _, r := range n.requirements(g) {
			if text, set := r.text(); set && !r.met {
				missing = append(missing, fmt.Sprintf("%s is required, but %s", text, r.instead))
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(missing, "; "))
}
