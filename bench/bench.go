// Package bench compares lock stores. It runs the same scenarios on each store. The stores take turns in rounds, so
// that noise on the machine affects all of them equally. It uses package lock as an application would, including
// hand-off inside the process, renewal and fencing tokens.
//
//	stores := []bench.Store{memory, redis} // each by bench.URL, or made by hand
//	report, err := bench.Run(ctx, bench.Options{Stores: stores})
//	err = report.WriteText(os.Stdout)
//
// The command anylock bench does this for URLs; bench/peers does it for other libraries.
package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A Store is a store to measure: a lock server and the library that uses it.
type Store struct {
	// Name is the store's name in the report, as in "redis".
	Name string

	// About describes the library, its version and its settings.
	About string

	// Open returns a new client, independent of earlier ones, with its own connections and state. Its leases have the TTL
	// ttl, which the store may round up, and are renewed while held.
	Open func(ctx context.Context, ttl time.Duration) (Client, error)

	// Requests returns how many commands the server has executed so far, including those in scripts, but not the request
	// for this number. It is nil if the commands cannot be counted. Calls do not overlap.
	Requests func(ctx context.Context) (int64, error)

	// Child is the text from which another process can open this store, see [Main]. If it is empty, the scenario recovery
	// is skipped.
	Child string

	// MinTTL is the shortest TTL that the store grants.
	MinTTL time.Duration

	// MaxLeases is how many leases one client can hold at the same time; 0 means no limit.
	MaxLeases int
}

// A Client is one client of a store. Its methods must be safe for concurrent use.
type Client interface {
	// Acquire waits until key is granted.
	Acquire(ctx context.Context, key string) (Lease, error)
	// Try makes one attempt. It returns ErrBusy if the key is held.
	Try(ctx context.Context, key string) (Lease, error)
	Close() error
}

// A SharedClient is a Client with shared leases. On a store without them, the scenarios with readers are skipped.
type SharedClient interface {
	Client
	// AcquireShared waits until key is granted together with other shared leases. ErrUnsupported means that the store has
	// no shared leases.
	AcquireShared(ctx context.Context, key string) (Lease, error)
}

// A Lease is released once.
type Lease interface {
	Release(ctx context.Context) error
}

// ErrBusy is the error of Client.Try if the key is held.
var ErrBusy = errors.New("the key is held")

// ErrUnsupported is the error of a Client that lacks what a scenario needs. The scenario then skips the store.
var ErrUnsupported = errors.New("the library cannot do that")

// Options configure a measurement. Zero values mean the defaults, which for two stores take less than half a minute.
type Options struct {
	Stores    []Store
	Scenarios []string // names, see Scenarios; nil means all
	Rounds    int      // default 5
	// of one scenario on one store in one round; default 60 ms; at least 20 times Hold if a contended key is held
	Duration time.Duration
	Clients  int // number of independent clients in scenarios with several; default 8
	Workers  int // goroutines: of a single client, default 64, or of each of several clients, default 8
	// how long a worker holds a contended key; 0 means the scenario's own time: 1 ms between clients, none within one;
	// negative means none
	Hold    time.Duration
	Held    int           // number of leases in the scenario held; default 1000
	Waiters []int         // numbers of waiters in the scenario waiters; default 1, 10, 100, 1000
	TTL     time.Duration // of leases; default 30 s, in the scenario held 3 s
	Server  string        // the server of the stores, such as "Redis 7.0.15", for the report

	// Observe is called before each step and at the end.
	Observe func(Progress)
}

// Progress describes the next step.
type Progress struct {
	Done, Total int // steps; each is a round of one scenario on one store
	Round       int // from 1
	Scenario    string
	Store       string
}

const (
	defaultRounds   = 5
	defaultDuration = 60 * time.Millisecond
	defaultClients  = 8
	defaultHeld     = 1000
	defaultTTL      = 30 * time.Second
)

func (o Options) withDefaults() Options {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&o.Rounds, defaultRounds)
	set(&o.Clients, defaultClients)
	set(&o.Held, defaultHeld)
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if len(o.Waiters) == 0 {
		o.Waiters = []int{1, 10, 100, 1000}
	}
	return o
}

// Validate returns an error if the options make no sense, before anything is measured.
func (o Options) Validate() error {
	switch {
	case len(o.Stores) == 0:
		return errors.New("bench: no store")
	case o.Rounds < 0, o.Clients < 0, o.Workers < 0, o.Held < 0, o.Duration < 0, o.TTL < 0:
		return errors.New("bench: negative option")
	}
	var names []string
	for _, s := range o.Stores {
		if slices.Contains(names, s.Name) {
			return fmt.Errorf("bench: two stores are named %q", s.Name)
		}
		names = append(names, s.Name)
	}
	for _, name := range o.Scenarios {
		if len(selected([]string{name}, Options{Waiters: []int{1}})) == 0 {
			return fmt.Errorf("bench: unknown scenario %q: there are %s", name, strings.Join(scenarioNames(), ", "))
		}
	}
	return nil
}

// Run measures. If ctx ends, Run stops early, and the report contains the measurements so far and has Interrupted set.
// If a store fails in a scenario, the scenario skips the store from then on, and the report contains the reason. Run
// returns an error only for invalid options.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	scenarios := selected(o.Scenarios, o)
	b := newReport(o, scenarios)
	total, done := 0, 0
	for round := range o.Rounds {
		for _, sc := range scenarios {
			if sc.in(round) {
				total += len(o.Stores)
			}
		}
	}
	observe := func(p Progress) {
		if o.Observe != nil {
			p.Done, p.Total = done, total
			o.Observe(p)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for round := range o.Rounds {
		for _, sc := range scenarios {
			if !sc.in(round) {
				continue
			}
			// Each round begins with another store, so that no store always follows the same one.
			for i := range o.Stores {
				s := o.Stores[(i+round)%len(o.Stores)]
				if ctx.Err() != nil {
					b.Interrupted = true
					return b.finish(), nil
				}
				observe(Progress{Round: round + 1, Scenario: sc.Name, Store: s.Name})
				b.measure(ctx, o, sc, s)
				done++
			}
		}
	}
	b.Interrupted = ctx.Err() != nil
	observe(Progress{Round: o.Rounds})
	return b.finish(), nil
}

// measure runs one scenario on one store once.
func (b *Report) measure(ctx context.Context, o Options, sc Scenario, s Store) {
	r := b.result(sc.Name, s.Name)
	if r.Problem != "" || r.Skipped != "" {
		return
	}
	if sc.unfit != nil {
		if r.Skipped = sc.unfit(s); r.Skipped != "" {
			return
		}
	}
	runtime.GC() // the garbage of others must not cost this store time
	t := &trial{Options: o, store: s, sample: make(Sample)}
	err := sc.run(ctx, t)
	err = errors.Join(err, t.close())
	switch {
	case ctx.Err() != nil: // half a round is not comparable
	case errors.Is(err, ErrUnsupported):
		r.Skipped = ErrUnsupported.Error()
	case err != nil:
		r.Problem = err.Error()
	default:
		r.Note = t.note
		r.add(t.sample, t.waits)
	}
}
