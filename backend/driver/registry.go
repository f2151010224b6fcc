package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/anylock/lock/backend"
)

// A Driver opens a store by URL. Its URLs and Params say what a URL may contain: Parse refuses everything else, and the
// command line and the documentation are made from them.
type Driver struct {
	// Name is the store's short name, as errors and logs show it: "redis".
	Name string
	// URLs are the forms of the store's URLs, at least one.
	URLs []URLForm
	// Params are the parameters of those URLs. The parameters for TLS are added where a form has a scheme with TLS.
	Params []Param
	// OtherParams names the client library that reads all other parameters, which do not begin with ParamPrefix. If it
	// is empty, there are none.
	OtherParams string
	// Examples are URLs for people, at least one.
	Examples []string
	// Guarantees are what a store promises that is opened by the first example.
	Guarantees backend.Guarantees
	// RoundTrips are the requests of one that nobody else contends with, as a test counts them on the wire.
	RoundTrips RoundTrips
	// Findings are what the store's Examine looks for, where it is an Examiner: each without what was found.
	Findings []backend.Finding
	// Open opens the store at a URL that Parse has accepted, less the parameters of package lock. It contacts the store
	// once, within ctx, so that a wrong address shows at start-up. What Open finds wrong with the URL is ErrInvalid,
	// before any request. The backend that it returns owns its client and closes it. Call OpenURL instead, which keeps
	// to ctx and hides passwords.
	Open func(ctx context.Context, u URL) (backend.Backend, error)
}

// OpenURL parses raw and opens the store. Errors show no password. It returns at the end of ctx even if d.Open does
// not: a backend that d.Open returns later is closed.
func (d Driver) OpenURL(ctx context.Context, raw string) (backend.Backend, error) {
	u, err := d.Parse(raw)
	if err != nil {
		return nil, err
	}
	b, err := openWithin(ctx, d.Open, u)
	return b, CleanError(raw, err)
}

// RoundTrips are how many requests, one after the other, an uncontended operation costs: "1", or "1-2" where that
// depends.
type RoundTrips struct {
	Acquire, Renew, Release string
}

// A registry maps schemes to drivers. The zero registry is empty and ready. It may be used by many goroutines at once.
type registry struct {
	mu      sync.RWMutex
	drivers map[string]*Driver
	ordered []*Driver
}

func (m *registry) register(d Driver) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.Name == "" || d.Open == nil || len(d.URLs) == 0 || len(d.Examples) == 0 {
		panic("driver: Register of an incomplete driver " + d.Name)
	}
	for _, s := range d.Schemes() {
		if !validScheme(s) || s != strings.ToLower(s) {
			panic(fmt.Sprintf("driver: Register of bad scheme %q", s))
		}
		if _, taken := m.drivers[s]; taken {
			panic(fmt.Sprintf("driver: Register called twice for scheme %q", s))
		}
	}
	if m.drivers == nil {
		m.drivers = make(map[string]*Driver)
	}
	for _, s := range d.Schemes() {
		m.drivers[s] = &d
	}
	m.ordered = append(m.ordered, &d)
	slices.SortFunc(m.ordered, func(a, b *Driver) int { return strings.Compare(a.Name, b.Name) })
}

// list returns the registered drivers, sorted by name.
func (m *registry) list() []Driver {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]Driver, len(m.ordered))
	for i, d := range m.ordered {
		list[i] = *d
	}
	return list
}

// lookup finds the driver for a URL by its scheme. ErrInvalid says which schemes there are.
func (m *registry) lookup(rawURL string) (Driver, error) {
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
	return Driver{}, fmt.Errorf("%w: unknown url scheme %q (%s; forgotten import?)", backend.ErrInvalid, u.Scheme, have)
}

// open opens the store that rawURL names, and returns the name of its driver too.
func (m *registry) open(ctx context.Context, rawURL string) (backend.Backend, string, error) {
	d, err := m.lookup(rawURL)
	if err != nil {
		return nil, "", err
	}
	b, err := d.OpenURL(ctx, rawURL)
	return b, d.Name, err
}

// drivers are those that Register has added, from the init functions of the stores' packages.
var drivers registry

// Register adds d, so that package lock finds it by the schemes of its URLs. It panics if d is incomplete or one of its
// schemes is registered already.
func Register(d Driver) { drivers.register(d) }

// Registered returns the registered drivers, sorted by name.
func Registered() []Driver { return drivers.list() }

// Lookup returns the driver for a URL by its scheme. ErrInvalid says which schemes there are.
func Lookup(rawURL string) (Driver, error) { return drivers.lookup(rawURL) }

// Open opens the store that rawURL names, and returns the name of its driver too.
func Open(ctx context.Context, rawURL string) (backend.Backend, string, error) {
	return drivers.open(ctx, rawURL)
}
