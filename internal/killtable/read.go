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
	"github.com/anylock/lock/internal/bugmatrix"
	"github.com/anylock/lock/internal/declared"
)

// findings is the content of all documents.
type findings struct {
	collections []collection
	mutants     []mutant
	checks      map[string]conformance.Check // by name
	matrix      bugmatrix.Matrix
}

// A collection contains the recorded specimens of one package, and the source code that shows them. Package
// conformance/specimens, which is its own module, documents the fields.
type collection struct {
	Store     string     `json:"store"`
	Specimens []specimen `json:"specimens"`
	source    map[string]string
}

type specimen struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Story  string   `json:"story"`
	See    string   `json:"see"`
	Right  string   `json:"right"`
	Sin    []string `json:"sin"`
	Virtue []string `json:"virtue"`
	Kills  []struct {
		Check    string `json:"check"`
		Evidence string `json:"evidence"`
	} `json:"kills"`
}

// A mutant is a bug in the suite's own reference store, and the check that finds it.
type mutant struct {
	Bug   string `json:"bug"`
	Check string `json:"check"`
}

// recordFile is the file with the record of a package of specimens.
const recordFile = "testdata/specimens.json"

// order lists the stores in the order of the documents. Other stores follow.
var order = []string{
	"redis", "readers", "redlock", "memcached", "zookeeper", "etcd", "postgres", "table", "mariadb", "sqlite",
}

// read collects the records of the tests below dir, the folder of the module.
func read(dir string) (*findings, error) {
	f := &findings{checks: make(map[string]conformance.Check)}
	for _, c := range conformance.Checks() {
		f.checks[c.Name] = c
	}
	packages, err := filepath.Glob(filepath.Join(dir, "conformance", "specimens", "*", recordFile))
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
		var c collection
		if err := readJSON(filepath.Join(p, recordFile), &c); err != nil {
			return nil, err
		}
		if c.source, err = declared.In(p); err != nil {
			return nil, err
		}
		f.collections = append(f.collections, c)
	}
	if err := readJSON(filepath.Join(dir, "conformance", "testdata", "mutants.json"), &f.mutants); err != nil {
		return nil, err
	}
	if f.matrix, err = bugmatrix.Read(filepath.Join(dir, "conformance", "testdata", "matrix.tsv")); err != nil {
		return nil, err
	}
	return f, f.validate()
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// place returns the position of a package's store in the documents.
func place(dir string) int {
	if i := slices.Index(order, filepath.Base(dir)); i >= 0 {
		return i
	}
	return len(order)
}

// validate reports unknown checks, and steps that their package does not declare.
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
			for _, step := range slices.Concat(s.Sin, s.Virtue) {
				if c.source[step] == "" {
					errs = append(errs, fmt.Errorf("%s shows %s, which its package does not declare", s.Name, step))
				}
			}
		}
	}
	for _, m := range f.mutants {
		known(m.Bug, m.Check)
	}
	return errors.Join(errs...)
}
