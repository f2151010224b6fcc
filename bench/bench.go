// Package bench measures lock stores side by side. It runs the same scenarios on each, and the stores take turns in
// rounds, so that noise on the machine affects all alike. It uses package lock as an application would, including
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

// A Store is one that is measured: a lock server with the library that uses it.
type Store struct {
	// Name is the store's name in the report, as in "redis".
	Name string

	// About says what it is: the library with its version, its settings.
	About string

	// Open returns a new client, independent of those before: its own connections, its own state. Its leases have the
	// TTL ttl, which the store may round up, and are renewed while held.
	Open func(ctx context.Context, ttl time.Duration) (Client, error)

	// Requests counts what the server has done so far, commands inside of scripts too, or is nil where that cannot be
	// counted. The request for the count is not counted. It is called once at a time.
	Requests func(ctx context.Context) (int64, error)

	// Child is what the program needs to open this store in a process of its own, see [Main]. Without it there is no
	// scenario recovery.
	Child string

	// MinTTL is the shortest TTL that the store grants.
	MinTTL time.Duration

	// MaxLeases is how many leases one client can hold at once, 0 for many.
	MaxLeases int
}

// A Client is one client of a store. Its methods are called by many goroutines at once.
type Client interface {
	// Acquire waits until key is granted.
	Acquire(ctx context.Context, key string) (Lease, error)
	// Try makes one attempt: a busy key is ErrBusy.
	Try(ctx context.Context, key string) (Lease, error)
	Close() error
}

// A SharedClient is a Client that can hold a key beside others. Without it there are no scenarios with readers.
type SharedClient interface {
	Client
	// AcquireShared waits until key is granted beside other shared leases. ErrUnsupported means that the store has
	// none.
	AcquireShared(ctx context.Context, key string) (Lease, error)
}

// A Lease is released once.
type Lease interface {
	Release(ctx context.Context) error
}

// ErrBusy is the error of Client.Try at a key that is held.
var ErrBusy = errors.New("the key is held")

// ErrUnsupported is the error of a Client that cannot do what a scenario needs: the store is left out of it.
var ErrUnsupported = errors.New("the library cannot do that")

// Options configure a measurement. Zero values are replaced by defaults, which for two stores take less than half a
// minute.
type Options struct {
	Stores    []Store
	Scenarios []string // names, see Scenarios; nil means all
	Rounds    int      // default 5
	// of one scenario on one store in one round; default 60 ms; 20 times Hold at least where a contended key is held
	Duration time.Duration
	Clients  int // how many independent clients contend where several do; default 8
	Workers  int // goroutines: of the one client, default 64, or of each of several, default 8
	// how long a worker holds a contended key; 0 means the scenario's own: 1 ms between clients, none within one; negative
	// means none
	Hold    time.Duration
	Held    int           // how many leases the scenario held keeps; default 1000
	Waiters []int         // the crowds of the scenario waiters; default 1, 10, 100, 1000
	TTL     time.Duration // of leases; default 30 s, in the scenario held 3 s
	Server  string        // what the stores run on, as in "Redis 7.0.15", for the report

	// Observe is called before each step and at the end.
	Observe func(Progress)
}

// Progress describes the next step.
type Progress struct {
	Done, Total int // steps: a round of a scenario on a store each
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

// Validate reports, before anything is measured, what makes no sense.
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

// Run measures. When ctx ends it stops early: the report has what was measured until then, and Interrupted is set. A
// store that fails in a scenario is left out of it from then on, and the report says why; other errors are of bad
// options.
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
			// Each round begins with another store, so that none always follows the same one.
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
	runtime.GC() // what others left is not this one's to clear away
	t := &trial{Options: o, store: s, sample: make(Sample)}
	err := sc.run(ctx, t)
	err = errors.Join(err, t.close())
	switch {
	case ctx.Err() != nil: // half a round says nothing
	case errors.Is(err, ErrUnsupported):
		r.Skipped = ErrUnsupported.Error()
	case err != nil:
		r.Problem = err.Error()
	default:
		r.Note = t.note
		r.add(t.sample, t.waits)
	}
}
