package lock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Guarantees says what a store promises.
type Guarantees = backend.Guarantees

// Fencing says what the order of tokens survives. A higher one includes the lower.
type Fencing = backend.Fencing

// Reach says how far apart owners may be that exclude each other. A higher one includes the lower.
type Reach = backend.Reach

// Values for NeedFencing and NeedReach.
const (
	FencingNone    = backend.FencingNone    // no tokens
	FencingProcess = backend.FencingProcess // tokens increase while this process lives
	FencingRestart = backend.FencingRestart // tokens increase across restarts of the store
	FencingLoss    = backend.FencingLoss    // tokens increase across loss of the store's data

	ReachProcess = backend.ReachProcess // goroutines of one process exclude each other
	ReachHost    = backend.ReachHost    // processes of one host do
	ReachNetwork = backend.ReachNetwork // hosts that share the store do
)

// A Requirement is something that a store must promise. The functions NeedX make one for Require. Each has a text, which Config and
// ParseRequirement take: NeedMaxLate(time.Second) is "max-late=1s".
type Requirement struct {
	text  string
	unmet func(Guarantees) string // what the store offers instead, empty if that is enough; nil: there is no such one
}

func (r Requirement) String() string { return r.text }

// NeedFIFO requires grants in the order of arrival: "fifo".
func NeedFIFO() Requirement {
	return Requirement{"fifo", func(g Guarantees) string { return kit.When(!g.FIFO, "waiters are not served in order") }}
}

// NeedPush requires that waiters are notified and do not poll: "push".
func NeedPush() Requirement {
	return Requirement{"push", func(g Guarantees) string { return kit.When(g.Wake != backend.WakePush, "waiters poll") }}
}

// NeedLinearizable requires exclusion whatever fails in the store: "linearizable".
func NeedLinearizable() Requirement {
	return Requirement{"linearizable", func(g Guarantees) string {
		return kit.When(g.Consistency != backend.Linearizable, "exclusion is best effort when the store fails")
	}}
}

// NeedNoEarlyLoss requires that the store never drops a live lease: "no-early-loss".
func NeedNoEarlyLoss() Requirement {
	return Requirement{"no-early-loss", func(g Guarantees) string {
		return kit.When(g.EarlyLoss != "", "a live lease may be dropped: %s", g.EarlyLoss)
	}}
}

// NeedTellsLoss requires that a holder learns soon, and not only at its next renewal, that somebody else has removed its lease:
// "tells-loss".
func NeedTellsLoss() Requirement {
	return Requirement{"tells-loss", func(g Guarantees) string {
		return kit.When(!g.TellsLoss, "a holder whose lease somebody removes learns of it at its next renewal")
	}}
}

// NeedFencing requires tokens that stay in order across at least this: "fencing=process", "fencing=restart" or
// "fencing=loss".
func NeedFencing(at Fencing) Requirement {
	if at < FencingNone || at > FencingLoss {
		return Requirement{text: "fencing=" + at.String()}
	}
	name := at.String()
	if at == FencingLoss {
		name = "loss" // of the store's data
	}
	return Requirement{"fencing=" + name, func(g Guarantees) string {
		return kit.When(g.Fencing < at, "fencing survives: %v", g.Fencing)
	}}
}

// NeedReach requires that owners this far apart exclude each other: "reach=process", "reach=host" or "reach=network".
func NeedReach(at Reach) Requirement {
	if at < ReachProcess || at > ReachNetwork {
		return Requirement{text: "reach=" + at.String()}
	}
	return Requirement{"reach=" + at.String(), func(g Guarantees) string {
		return kit.When(g.Reach < at, "owners exclude each other only within one %v", g.Reach)
	}}
}

// NeedMaxLate requires that a dead holder's key is free no later than d after its TTL: "max-late=500ms".
func NeedMaxLate(d time.Duration) Requirement {
	return atMost("max-late", d, func(g Guarantees) time.Duration { return g.MaxLate })
}

// NeedMinTTL requires a MinTTL of d or less: "min-ttl=1s". The store may still round a TTL up to its Granularity.
func NeedMinTTL(d time.Duration) Requirement {
	return atMost("min-ttl", d, func(g Guarantees) time.Duration { return g.MinTTL })
}

// NeedMaxTTL requires that the store grants TTLs of up to d: "max-ttl=1h".
func NeedMaxTTL(d time.Duration) Requirement {
	return atLeast("max-ttl", d, func(g Guarantees) time.Duration { return g.MaxTTL })
}

// NeedMaxSilence requires that a lease whose TTL is d or longer lasts for d even if its client loses contact with the store:
// "max-silence=1m".
func NeedMaxSilence(d time.Duration) Requirement {
	return atLeast("max-silence", d, func(g Guarantees) time.Duration { return g.MaxSilence })
}

// NeedMaxLeases requires that one Locker can hold n leases at once: "max-leases=100".
func NeedMaxLeases(n int) Requirement {
	return Requirement{"max-leases=" + strconv.Itoa(n), func(g Guarantees) string {
		return kit.When(g.MaxLeases != 0 && g.MaxLeases < n, "at most %d leases can be held at once", g.MaxLeases)
	}}
}

func atMost(name string, d time.Duration, of func(Guarantees) time.Duration) Requirement {
	return Requirement{name + "=" + d.String(), func(g Guarantees) string {
		return kit.When(of(g) > d, "%s is %v", name, of(g))
	}}
}

// atLeast is a requirement on a limit, of which 0 is none.
func atLeast(name string, d time.Duration, of func(Guarantees) time.Duration) Requirement {
	return Requirement{name + "=" + d.String(), func(g Guarantees) string {
		return kit.When(of(g) != 0 && of(g) < d, "%s is %v", name, of(g))
	}}
}

// ParseRequirement reads a requirement as its constructor's comment writes it, "fifo" or "fencing=restart".
func ParseRequirement(text string) (Requirement, error) {
	for _, r := range []Requirement{
		NeedFIFO(), NeedPush(), NeedLinearizable(), NeedNoEarlyLoss(), NeedTellsLoss(),
		NeedFencing(FencingNone), NeedFencing(FencingProcess), NeedFencing(FencingRestart), NeedFencing(FencingLoss),
		NeedReach(ReachProcess), NeedReach(ReachHost), NeedReach(ReachNetwork),
	} {
		if r.text == text {
			return r, nil
		}
	}
	name, value, _ := strings.Cut(text, "=")
	if name == "max-leases" {
		if n, err := strconv.Atoi(value); err == nil && n >= 0 {
			return NeedMaxLeases(n), nil
		}
	}
	durations := map[string]func(time.Duration) Requirement{
		"max-late": NeedMaxLate, "min-ttl": NeedMinTTL, "max-ttl": NeedMaxTTL, "max-silence": NeedMaxSilence,
	}
	if need, ok := durations[name]; ok {
		if d, err := time.ParseDuration(value); err == nil && d >= 0 {
			return need(d), nil
		}
	}
	return Requirement{}, fmt.Errorf("%w: unknown requirement %q", ErrInvalid, text)
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
