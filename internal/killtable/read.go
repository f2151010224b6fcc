package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/specimens"
)

// findings is all that the documents are made of.
type findings struct {
	collections []collection
	mutants     []mutant
	checks      map[string]conformance.Check // by name
}

// A collection is the specimens of one package, and the source that shows them.
type collection struct {
	specimens.Collection
	source map[string]string
}

// A mutant is a bug in the suite's own reference store, and the check that finds it.
type mutant struct {
	Bug   string `json:"bug"`
	Check string `json:"check"`
}

// order is that of the stores in the documents; others follow.
var order = []string{"redis", "redlock", "memcached", "zookeeper", "etcd", "postgres", "table"}

// read collects what the tests have recorded below dir, the module's folder.
func read(dir string) (*findings, error) {
	f := &findings{checks: make(map[string]conformance.Check)}
	for _, c := range conformance.Checks() {
		f.checks[c.Name] = c
	}
	packages, err := filepath.Glob(filepath.Join(dir, "conformance", "specimens", "*", "testdata", "specimens.json"))
	if err != nil {
		return nil, err
	}
	for i := range packages {
		packages[i] = filepath.Dir(filepath.Dir(packages[i]))
	}
	slices.SortFunc(packages, func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, p := range packages {
		c := collection{}
		if c.Collection, err = specimens.Read(p); err != nil {
			return nil, err
		}
		if c.source, err = specimens.Source(p); err != nil {
			return nil, err
		}
		f.collections = append(f.collections, c)
	}
	text, err := os.ReadFile(filepath.Join(dir, "conformance", "testdata", "mutants.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &f.mutants); err != nil {
		return nil, fmt.Errorf("mutants.json: %w", err)
	}
	return f, f.validate()
}

// place is that of a package's store in the documents.
func place(dir string) int {
	if i := slices.Index(order, filepath.Base(dir)); i >= 0 {
		return i
	}
	return len(order)
}

// validate reports checks that do not exist.
func (f *findings) validate() error {
	var errs []error
	known := func(who, check string) {
		if f.checks[check].Name == "" {
			errs = append(errs, fmt.Errorf("%s is found by %s, and there is no such check", who, check))
		}
	}
	for _, c := range f.collections {
		for _, s := range c.Specimens {
			for _, k := range s.Kills {
				known(s.Name, k.Check)
			}
		}
	}
	for _, m := range f.mutants {
		known(m.Bug, m.Check)
	}
	return errors.Join(errs...)
}
