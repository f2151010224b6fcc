package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Driver opens a store by URL.
type Driver struct {
	// Name is the store's short name, as errors and logs show it: "redis".
	Name string
	// Schemes are the URL schemes that Open takes, lower case: "redis", "rediss".
	Schemes []string
	// Examples are URLs for people, at least one.
	Examples []string
	// Params are the store's own query parameters (ParamPrefix), each with a line that explains it.
	Params map[string]string
	// Guarantees are what a store promises that is opened by the first example.
	Guarantees Guarantees
	// RoundTrips are the requests of one that nobody else contends with, as a test counts them on the wire.
	RoundTrips RoundTrips
	// Findings are what the store's Examine looks for, where it is an Examiner: each without what was found.
	Findings []Finding
	// Open gets the raw URL, less the parameters that package lock has taken. It reaches the store once, so that a wrong
	// address shows at start-up, within ctx. Bad URLs are ErrInvalid before any request; no error shows a password (see
	// CleanError). The backend it returns owns its client and closes it. After Register, Open of the registered driver
	// returns at the end of ctx even if this function does not: a backend that it returns later is closed.
	Open func(ctx context.Context, rawURL string) (Backend, error)
}

// RoundTrips are how many requests, one after the other, an uncontended operation costs: "1", or "1-2" where that depends.
type RoundTrips struct {
	Acquire, Renew, Release string
}

// A Mux maps schemes to drivers. The zero Mux is empty and ready. It may be used by many goroutines at once.
type Mux struct {
	mu      sync.RWMutex
	drivers map[string]*Driver
	ordered []*Driver
}

// Register adds d. It panics if d is incomplete or one of its schemes is taken, which are a programmer's errors.
func (m *Mux) Register(d Driver) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.Name == "" || d.Open == nil || len(d.Schemes) == 0 || len(d.Examples) == 0 {
		panic("backend: Register of an incomplete driver " + d.Name)
	}
	for _, s := range d.Schemes {
		if !validScheme(s) || s != strings.ToLower(s) {
			panic(fmt.Sprintf("backend: Register of bad scheme %q", s))
		}
		if _, taken := m.drivers[s]; taken {
			panic(fmt.Sprintf("backend: Register called twice for scheme %q", s))
		}
	}
	if m.drivers == nil {
		m.drivers = make(map[string]*Driver)
	}
	d.Open = openWithin(d.Open)
	for _, s := range d.Schemes {
		m.drivers[s] = &d
	}
	m.ordered = append(m.ordered, &d)
	slices.SortFunc(m.ordered, func(a, b *Driver) int { return strings.Compare(a.Name, b.Name) })
}

// Drivers lists what is registered, by name.
func (m *Mux) Drivers() []Driver {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]Driver, len(m.ordered))
	for i, d := range m.ordered {
		list[i] = *d
	}
	return list
}

// Lookup finds the driver for a URL by its scheme. ErrInvalid says which schemes there are.
func (m *Mux) Lookup(rawURL string) (Driver, error) {
	u, err := SplitURL(rawURL)
	if err != nil {
		return Driver{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if d, ok := m.drivers[u.Scheme]; ok {
		return *d, nil
	}
	var known []string
	for s := range m.drivers {
		known = append(known, s)
	}
	slices.Sort(known)
	have := "none is registered"
	if len(known) > 0 {
		have = "registered: " + strings.Join(known, ", ")
	}
	return Driver{}, fmt.Errorf("%w: unknown url scheme %q (%s; forgotten import?)", ErrInvalid, u.Scheme, have)
}

// Open opens the store that rawURL names, and returns the name of its driver too.
func (m *Mux) Open(ctx context.Context, rawURL string) (Backend, string, error) {
	d, err := m.Lookup(rawURL)
	if err != nil {
		return nil, "", err
	}
	b, err := d.Open(ctx, rawURL)
	return b, d.Name, CleanError(rawURL, err)
}

// DefaultMux is where Register adds drivers, from the init functions of the stores' packages.
var DefaultMux = new(Mux)

// Register adds d to DefaultMux.
func Register(d Driver) { DefaultMux.Register(d) }
