package lock

import (
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
	FIFO         bool // grants follow the order of arrival: "fifo"
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
	MaxSilence  time.Duration // a lease of at least this TTL survives a disconnection of this length: "max-silence=1m"
	MaxLeases   int           // one Locker can hold this many leases at once: "max-leases=100"
}

// A need is one field of a Need.
type need struct {
	name  string
	value func(n Need) (text string, set, ok bool) // a flag has no text; ok is false for an invalid value
	parse func(n *Need, value string) bool
	lacks func(n Need, g Guarantees) string // what the store offers instead; "" if the store meets the need
}

// needs has a row for each field of Need.
var needs = []need{
	flag("fifo", func(n *Need) *bool { return &n.FIFO }, func(g Guarantees) string {
		return unless(g.FIFO, "waiters are not served in order")
	}),
	flag("push", func(n *Need) *bool { return &n.Push }, func(g Guarantees) string {
		return unless(g.Wake == backend.WakePush, "waiters poll")
	}),
	flag("linearizable", func(n *Need) *bool { return &n.Linearizable }, func(g Guarantees) string {
		return unless(g.Consistency == backend.Linearizable, "exclusion is best effort when the store fails")
	}),
	flag("no-early-loss", func(n *Need) *bool { return &n.NoEarlyLoss }, func(g Guarantees) string {
		return unless(g.EarlyLoss == "", "a live lease may be dropped: "+g.EarlyLoss)
	}),
	flag("shared", func(n *Need) *bool { return &n.Shared }, func(g Guarantees) string {
		return unless(g.Shared, "the store has no shared leases")
	}),
	flag("reports-loss", func(n *Need) *bool { return &n.ReportsLoss }, func(g Guarantees) string {
		return unless(g.ReportsLoss, "a holder whose lease somebody removes learns of it at its next renewal")
	}),
	level("fencing", []string{"none", "process", "restart", "loss"}, func(n *Need) *Fencing { return &n.Fencing },
		func(g Guarantees, at Fencing) string {
			return unless(g.Fencing >= at, fmt.Sprintf("fencing survives: %v", g.Fencing))
		}),
	level("reach", []string{"process", "host", "network"}, func(n *Need) *Reach { return &n.Reach },
		func(g Guarantees, at Reach) string {
			return unless(g.Reach >= at, fmt.Sprintf("owners exclude each other only within one %v", g.Reach))
		}),
	duration("max-late", func(n *Need) *time.Duration { return &n.MaxLate }, func(g Guarantees, d time.Duration) string {
		return unless(g.MaxLate <= d, fmt.Sprintf("max-late is %v", g.MaxLate))
	}),
	duration("min-ttl", func(n *Need) *time.Duration { return &n.MinTTL }, func(g Guarantees, d time.Duration) string {
		return unless(g.MinTTL <= d, fmt.Sprintf("min-ttl is %v", g.MinTTL))
	}),
	duration("max-ttl", func(n *Need) *time.Duration { return &n.MaxTTL }, func(g Guarantees, d time.Duration) string {
		return unless(g.MaxTTL == 0 || g.MaxTTL >= d, fmt.Sprintf("max-ttl is %v", g.MaxTTL))
	}),
	duration("max-silence", func(n *Need) *time.Duration { return &n.MaxSilence },
		func(g Guarantees, d time.Duration) string {
			return unless(g.MaxSilence == 0 || g.MaxSilence >= d, fmt.Sprintf("max-silence is %v", g.MaxSilence))
		}),
	amount("max-leases", func(n *Need) *int { return &n.MaxLeases }, strconv.Itoa, strconv.Atoi,
		func(g Guarantees, most int) string {
			return unless(g.MaxLeases == 0 || g.MaxLeases >= most,
				fmt.Sprintf("at most %d leases can be held at once", g.MaxLeases))
		}),
}

func unless(met bool, instead string) string {
	if met {
		return ""
	}
	return instead
}

func flag(name string, of func(*Need) *bool, lacks func(Guarantees) string) need {
	return need{
		name:  name,
		value: func(n Need) (string, bool, bool) { return "", *of(&n), true },
		parse: func(n *Need, value string) bool { *of(n) = true; return value == "" },
		lacks: func(_ Need, g Guarantees) string { return lacks(g) },
	}
}

// level returns a need for at least the level with the given name. names lists all levels, the lowest first.
func level[T ~int](name string, names []string, of func(*Need) *T, lacks func(Guarantees, T) string) need {
	return need{
		name: name,
		value: func(n Need) (string, bool, bool) {
			at := int(*of(&n))
			if at < 0 || at >= len(names) {
				return strconv.Itoa(at), true, false
			}
			return names[at], at > 0, true
		},
		parse: func(n *Need, value string) bool {
			at := slices.Index(names, value)
			*of(n) = T(at)
			return at >= 0
		},
		lacks: func(n Need, g Guarantees) string { return lacks(g, *of(&n)) },
	}
}

func duration(name string, of func(*Need) *time.Duration, lacks func(Guarantees, time.Duration) string) need {
	return amount(name, of, time.Duration.String, time.ParseDuration, lacks)
}

func amount[T ~int | ~int64](name string, of func(*Need) *T, format func(T) string, parse func(string) (T, error),
	lacks func(Guarantees, T) string) need {
	return need{
		name:  name,
		value: func(n Need) (string, bool, bool) { v := *of(&n); return format(v), v != 0, v >= 0 },
		parse: func(n *Need, value string) bool {
			v, err := parse(value)
			*of(n) = v
			return err == nil && v > 0
		},
		lacks: func(n Need, g Guarantees) string { return lacks(g, *of(&n)) },
	}
}

// text returns the field as the text form of a Need shows it.
func (f need) text(value string) string {
	if value == "" {
		return f.name
	}
	return f.name + "=" + value
}

// String returns the text form of n.
func (n Need) String() string {
	var list []string
	for _, f := range needs {
		if value, set, _ := f.value(n); set {
			list = append(list, f.text(value))
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
	for entry := range strings.SplitSeq(string(text), ",") {
		if len(text) == 0 {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
		i := slices.IndexFunc(needs, func(f need) bool { return f.name == name })
		if i < 0 || !needs[i].parse(&parsed, value) {
			return fmt.Errorf("%w: unknown requirement %q", ErrInvalid, entry)
		}
	}
	*n = parsed
	return nil
}

// unmet returns an error that lists what g lacks, or nil if g lacks nothing.
func unmet(g Guarantees, require []Need) error {
	var missing []string
	for _, n := range require {
		for _, f := range needs {
			value, set, ok := f.value(n)
			switch {
			case !ok:
				return fmt.Errorf("%w: unknown requirement %q", ErrInvalid, f.text(value))
			case !set:
			default:
				if instead := f.lacks(n, g); instead != "" {
					missing = append(missing, fmt.Sprintf("%s is required, but %s", f.text(value), instead))
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(missing, "; "))
}
