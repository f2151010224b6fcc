package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anylock/lock/backend"
)

func driver(name string, schemes ...string) Driver {
	d := Driver{
		Name: name, Examples: []string{schemes[0] + "://x"},
		Open: func(_ context.Context, u URL) (backend.Backend, error) {
			return nil, fmt.Errorf("%w: opened %s", errReset, u.Raw)
		},
	}
	for _, s := range schemes {
		d.URLs = append(d.URLs, URLForm{Scheme: s, Hosts: OneHost, User: true, Path: OptionalPath})
	}
	return d
}

// emptyRegistry removes all drivers, now and at the end of the test.
func emptyRegistry(t *testing.T) {
	t.Helper()
	drivers.list = nil
	t.Cleanup(func() { drivers.list = nil })
}

func TestRegistry(t *testing.T) {
	emptyRegistry(t)
	_, err := Lookup("zoo:")
	if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "none is registered") {
		t.Errorf("%v", err)
	}
	Register(driver("zoo", "zoo", "zoos"))
	Register(driver("ant", "ant", "ant+unix"))
	var names []string
	for _, d := range Registered() {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, []string{"ant", "zoo"}) {
		t.Errorf("drivers %v", names)
	}
	for raw, want := range map[string]string{"zoo://h": "zoo", "ZOOS://h": "zoo", "ant+unix:/x": "ant"} {
		d, err := Lookup(raw)
		if err != nil || d.Name != want {
			t.Errorf("%s: %s, %v", raw, d.Name, err)
		}
	}
	_, err = Lookup("nope://user:secret@h")
	if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(),
		`"nope" (registered: ant, ant+unix, zoo, zoos; forgotten import?)`) {
		t.Errorf("%v", err)
	}
	if _, err := Lookup("zoo://u:se#cret@h"); !errors.Is(err, backend.ErrInvalid) ||
		strings.Contains(err.Error(), "cret") {
		t.Errorf("%v", err)
	}
}

func TestRegistryOpen(t *testing.T) {
	emptyRegistry(t)
	Register(driver("zoo", "zoo"))
	_, name, err := Open(t.Context(), "zoo://u:secret@h")
	if name != "zoo" || !errors.Is(err, errReset) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%s, %v", name, err)
	}
	if _, _, err := Open(t.Context(), "zoo"); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestRegisterPanics(t *testing.T) {
	for name, change := range map[string]func(*Driver){
		"no name":      func(d *Driver) { d.Name = "" },
		"no open":      func(d *Driver) { d.Open = nil },
		"no scheme":    func(d *Driver) { d.URLs = nil },
		"no example":   func(d *Driver) { d.Examples = nil },
		"upper case":   func(d *Driver) { d.URLs = []URLForm{{Scheme: "New"}} },
		"bad scheme":   func(d *Driver) { d.URLs = []URLForm{{Scheme: "new_one"}} },
		"empty scheme": func(d *Driver) { d.URLs = []URLForm{{Scheme: ""}} },
		"taken":        func(d *Driver) { d.URLs = []URLForm{{Scheme: "new"}, {Scheme: "old"}} },
	} {
		t.Run(name, func(t *testing.T) {
			emptyRegistry(t)
			Register(driver("old", "old"))
			d := driver("new", "new")
			change(&d)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
				if _, err := Lookup("new:"); err == nil || len(Registered()) != 1 {
					t.Error("a part of it is registered")
				}
			}()
			Register(d)
		})
	}
}

func TestRegistryConcurrently(t *testing.T) {
	emptyRegistry(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			Register(driver(fmt.Sprint("d", i), fmt.Sprint("s", i)))
			_, _ = Lookup("s0:")
			_ = Registered()
		})
	}
	all.Wait()
	if len(Registered()) != 8 {
		t.Errorf("%d drivers", len(Registered()))
	}
}

var errReset = errors.New("connection reset")
