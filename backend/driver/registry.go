package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/anylock/lock/backend"
)

// A Driver opens a store by URL. Its URLs and Params describe what a URL may contain. Parse refuses everything else,
// and the command line and the documentation are generated from them.
type Driver struct {
	// Name is the store's short name, as errors and logs show it: "redis".
	Name string
	// URLs are the forms of the store's URLs, at least one.
	URLs []URLForm
	// Params are the parameters of those URLs. If a form has a scheme with TLS, the parameters for TLS are added.
	Params []Param
	// OtherParams names the client library that reads all other parameters; their names do not begin with ParamPrefix. If
	// OtherParams is empty, no other parameters are allowed.
	OtherParams string
	// Examples are example URLs for people, at least one.
	Examples []string
	// Guarantees are the promises of a store that is opened with the first example.
	Guarantees backend.Guarantees
	// RoundTrips are the requests that operations on such a store need without contention. A test counts them on the wire.
	RoundTrips RoundTrips
	// Findings lists the findings that the store's Examine can return, if it is an Examiner, without what was found.
	Findings []backend.Finding
	// Open opens the store at a URL that Parse has accepted, without the parameters of package lock. It contacts the store
	// once, within ctx, so that a wrong address is noticed at start-up. If Open finds an error in the URL, it returns
	// ErrInvalid before any request. The backend that it returns owns its client and closes it. With an error, the backend
	// is ignored, and may be a nil pointer. Callers use OpenURL instead, which keeps to ctx and hides passwords.
	Open func(ctx context.Context, u URL) (backend.Backend, error)
}

// OpenURL parses raw and opens the store. Errors show no password. OpenURL returns when ctx ends even if d.Open does
// not: a backend that d.Open returns later is closed.
func (d Driver) OpenURL(ctx context.Context, raw string) (backend.Backend, error) {
	u, err := d.Parse(raw)
	if err != nil {
		return nil, err
	}
	b, err := d.openWithin(ctx, u)
	if err != nil {
		return nil, CleanError(raw, err) // not b: a nil pointer in an interface is not nil
	}
	return b, nil
}

// RoundTrips is how many sequential requests an uncontended operation needs: "1", or "1-2" if the number varies.
type RoundTrips struct {
	Acquire, Renew, Release string
}

// drivers holds the drivers that the init functions of the stores' packages have added with Register, sorted by name.
var drivers struct {
	sync.RWMutex
	list []Driver
}

// Register adds d, so that package lock finds it by the schemes of its URLs. It panics if d is incomplete, or if one of
// its schemes is invalid or already registered.
func Register(d Driver) {
	drivers.Lock()
	defer drivers.Unlock()
	if d.Name == "" || d.Open == nil || len(d.URLs) == 0 || len(d.Examples) == 0 {
		panic("driver: Register of an incomplete driver " + d.Name)
	}
	for _, s := range d.Schemes() {
		if !validScheme(s) || s != strings.ToLower(s) {
			panic(fmt.Sprintf("driver: Register of bad scheme %q", s))
		}
		if slices.ContainsFunc(drivers.list, func(other Driver) bool { return slices.Contains(other.Schemes(), s) }) {
			panic(fmt.Sprintf("driver: Register called twice for scheme %q", s))
		}
	}
	drivers.list = append(drivers.list, d)
	slices.SortFunc(drivers.list, func(a, b Driver) int { return strings.Compare(a.Name, b.Name) })
}

// Registered returns the registered drivers, sorted by name.
func Registered() []Driver {
	drivers.RLock()
	defer drivers.RUnlock()
	return slices.Clone(drivers.list)
}

// Lookup returns the driver for a URL by its scheme. If the scheme is unknown, the error matches ErrInvalid and lists
// the registered schemes.
func Lookup(rawURL string) (Driver, error) {
	u, err := SplitURL(rawURL)
	if err != nil {
		return Driver{}, err
	}
	var known []string
	for _, d := range Registered() {
		if slices.Contains(d.Schemes(), u.Scheme) {
			return d, nil
		}
		known = append(known, d.Schemes()...)
	}
	have := "none is registered"
	if len(known) > 0 {
		slices.Sort(known)
		have = "registered: " + strings.Join(known, ", ")
	}
	return Driver{}, fmt.Errorf("%w: unknown url scheme %q (%s; forgotten import?)", backend.ErrInvalid, u.Scheme, have)
}

// Open opens the store that rawURL names. It also returns the name of the store's driver.
func Open(ctx context.Context, rawURL string) (backend.Backend, string, error) {
	d, err := Lookup(rawURL)
	if err != nil {
		return nil, "", err
	}
	b, err := d.OpenURL(ctx, rawURL)
	return b, d.Name, err
}
