package lock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// Guarantees says what a store promises.
type Guarantees = backend.Guarantees

// What Guarantees is made of, so that applications need not import package backend.
const (
	FencingNone    = backend.FencingNone    // no tokens
	FencingProcess = backend.FencingProcess // tokens increase while this process lives
	FencingRestart = backend.FencingRestart // tokens increase across restarts of the store
	FencingLoss    = backend.FencingLoss    // tokens increase across loss of the store's data

	ReachProcess = backend.ReachProcess // goroutines of one process exclude each other
	ReachHost    = backend.ReachHost    // processes of one host do
	ReachNetwork = backend.ReachNetwork // hosts that share the store do
)

// A Requirement is something that a store must promise; see Require. In a Config it is a text, as ParseRequirement takes.
type Requirement struct {
	text  string
	unmet func(Guarantees) string // what the store offers instead, empty if that is enough; nil: there is no such one
}

func (r Requirement) String() string { return r.text }

// FIFO requires grants in the order of arrival: "fifo".
func FIFO() Requirement {
	return flag("fifo", "waiters are not served in order", func(g Guarantees) bool { return g.FIFO })
}

// Push requires that waiters are woken, not left to poll: "push".
func Push() Requirement {
	return flag("push", "waiters poll", func(g Guarantees) bool { return g.Wake == backend.WakePush })
}

// Linearizable requires exclusion whatever fails in the store: "linearizable".
func Linearizable() Requirement {
	return flag("linearizable", "exclusion is best effort when the store fails",
		func(g Guarantees) bool { return g.Consistency == backend.Linearizable })
}

// NoEarlyLoss requires that the store never drops a live lease: "no-early-loss".
func NoEarlyLoss() Requirement {
	return Requirement{"no-early-loss", func(g Guarantees) string {
		if g.EarlyLoss == "" {
			return ""
		}
		return "a live lease may be dropped: " + g.EarlyLoss
	}}
}

// TellsLoss requires that a holder is told soon when somebody else has removed its lease, and not by its next renewal: "tells-loss".
func TellsLoss() Requirement {
	return flag("tells-loss", "a holder whose lease somebody removes learns of it at its next renewal", func(g Guarantees) bool { return g.TellsLoss })
}

// Fencing requires tokens that stay in order across at least this: "fencing=process", "fencing=restart" or
// "fencing=loss".
func Fencing(at backend.Fencing) Requirement {
	if _, ok := fencingNames[at]; !ok {
		return Requirement{text: "fencing=" + at.String()}
	}
	return Requirement{"fencing=" + fencingNames[at], func(g Guarantees) string {
		if g.Fencing >= at {
			return ""
		}
		return "fencing survives: " + g.Fencing.String()
	}}
}

// Reach requires that owners this far apart exclude each other: "reach=process", "reach=host" or "reach=network".
func Reach(at backend.Reach) Requirement {
	if at < ReachProcess || at > ReachNetwork {
		return Requirement{text: "reach=" + at.String()}
	}
	return Requirement{"reach=" + at.String(), func(g Guarantees) string {
		if g.Reach >= at {
			return ""
		}
		return "owners exclude each other only within one " + g.Reach.String()
	}}
}

// MaxLate requires that the key of a dead holder is free by its TTL plus d: "max-late=500ms".
func MaxLate(d time.Duration) Requirement {
	return atMost("max-late", d, func(g Guarantees) time.Duration { return g.MaxLate })
}

// MinTTL requires that leases as short as d are granted as asked: "min-ttl=1s".
func MinTTL(d time.Duration) Requirement {
	return atMost("min-ttl", d, func(g Guarantees) time.Duration { return g.MinTTL })
}

// MaxTTL requires that leases as long as d can be had: "max-ttl=1h".
func MaxTTL(d time.Duration) Requirement {
	return atLeast("max-ttl", d, func(g Guarantees) time.Duration { return g.MaxTTL })
}

// MaxSilence requires that a lease is kept for d, if its TTL is that long, although the store hears nothing of its holder:
// "max-silence=1m".
func MaxSilence(d time.Duration) Requirement {
	return atLeast("max-silence", d, func(g Guarantees) time.Duration { return g.MaxSilence })
}

// MaxLeases requires that one Locker can hold n leases at once: "max-leases=100".
func MaxLeases(n int) Requirement {
	return Requirement{"max-leases=" + strconv.Itoa(n), func(g Guarantees) string {
		if g.MaxLeases != 0 && g.MaxLeases < n {
			return fmt.Sprintf("at most %d leases can be held at once", g.MaxLeases)
		}
		return ""
	}}
}

func flag(text, instead string, ok func(Guarantees) bool) Requirement {
	return Requirement{text, func(g Guarantees) string {
		if ok(g) {
			return ""
		}
		return instead
	}}
}

func atMost(name string, d time.Duration, of func(Guarantees) time.Duration) Requirement {
	return Requirement{name + "=" + d.String(), func(g Guarantees) string {
		if of(g) <= d {
			return ""
		}
		return fmt.Sprintf("%s is %v", name, of(g))
	}}
}

func atLeast(name string, d time.Duration, of func(Guarantees) time.Duration) Requirement {
	return Requirement{name + "=" + d.String(), func(g Guarantees) string {
		if is := of(g); is != 0 && is < d {
			return fmt.Sprintf("%s is %v", name, is)
		}
		return ""
	}}
}

var fencingNames = map[backend.Fencing]string{
	FencingNone: "none", FencingProcess: "process", FencingRestart: "restart", FencingLoss: "loss",
}

// ParseRequirement reads a requirement as its constructor's comment writes it, "fifo" or "fencing=restart".
func ParseRequirement(text string) (Requirement, error) {
	name, value, hasValue := strings.Cut(text, "=")
	bad := func() (Requirement, error) {
		return Requirement{}, fmt.Errorf("%w: unknown requirement %q", ErrInvalid, text)
	}
	if !hasValue {
		for _, r := range []Requirement{FIFO(), Push(), Linearizable(), NoEarlyLoss(), TellsLoss()} {
			if r.text == name {
				return r, nil
			}
		}
		return bad()
	}
	switch name {
	case "fencing":
		for f, n := range fencingNames {
			if n == value {
				return Fencing(f), nil
			}
		}
	case "reach":
		for _, at := range []backend.Reach{ReachProcess, ReachHost, ReachNetwork} {
			if at.String() == value {
				return Reach(at), nil
			}
		}
	case "max-late", "min-ttl", "max-ttl", "max-silence":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return bad()
		}
		of := map[string]func(time.Duration) Requirement{"max-late": MaxLate, "min-ttl": MinTTL, "max-ttl": MaxTTL,
			"max-silence": MaxSilence}
		return of[name](d), nil
	case "max-leases":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return bad()
		}
		return MaxLeases(n), nil
	}
	return bad()
}

// UnmarshalText implements encoding.TextUnmarshaler, for Config.
func (r *Requirement) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRequirement(string(text))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (r Requirement) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// unmet is the error that lists what g lacks.
func unmet(g Guarantees, require []Requirement) error {
	var missing []string
	for _, r := range require {
		if r.unmet == nil {
			return fmt.Errorf("%w: unknown requirement %q", ErrInvalid, r.text)
		}
		if instead := r.unmet(g); instead != "" {
			missing = append(missing, fmt.Sprintf("%s is required, but %s", r.text, instead))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(missing, "; "))
}
