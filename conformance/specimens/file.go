package specimens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/anylock/lock/internal/declared"
)

// recordFile is where a package keeps its collection with what the checks said of it.
const recordFile = "testdata/specimens.json"

const (
	updateEnv = "ANYLOCK_UPDATE"
	twinsEnv  = "ANYLOCK_TWINS"
)

func wholeSuite() bool { return os.Getenv(twinsEnv) == "1" }

// Read returns the collection that the package in dir has recorded.
func Read(dir string) (Collection, error) {
	var c Collection
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", filepath.Join(dir, recordFile), err)
	}
	return c, c.validate(dir)
}

// compare fails the test if what is recorded is not of this collection; with ANYLOCK_UPDATE=1 it writes a record
// instead.
func (r *record) compare(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	if os.Getenv(updateEnv) == "1" {
		if err := r.c.hasEvidence(); err != nil { // -run has left something out
			t.Fatal(err)
		}
		if err := r.c.write("."); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := Read(".")
	if err != nil {
		t.Errorf("%v: run make evidence", err)
		return
	}
	if !bytes.Equal(old.withoutEvidence().marshal(), r.c.withoutEvidence().marshal()) {
		t.Errorf("%s is not of these specimens: run make evidence", recordFile)
	}
	if err := old.hasEvidence(); err != nil {
		t.Errorf("%s: %v: run make evidence", recordFile, err)
	}
}

// hasEvidence reports what no evidence was recorded of.
func (c Collection) hasEvidence() error {
	var errs []error
	for _, s := range c.Specimens {
		for _, k := range s.Kills {
			if k.said(k.Evidence) == "" {
				errs = append(errs, fmt.Errorf("no evidence that %s finds %s", k.Check, s.Name))
			}
		}
	}
	return errors.Join(errs...)
}

func (c Collection) write(dir string) error {
	name := filepath.Join(dir, recordFile)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, c.marshal(), 0o644)
}

func (c Collection) marshal() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(c); err != nil {
		panic(err) // strings only
	}
	return b.Bytes()
}

// withoutEvidence returns a copy without the evidence of a run.
func (c Collection) withoutEvidence() Collection {
	bare := c
	bare.Specimens = nil
	for _, s := range c.Specimens {
		kills := make([]Kill, len(s.Kills))
		for i, k := range s.Kills {
			k.Evidence = ""
			kills[i] = k
		}
		s.Kills = kills
		bare.Specimens = append(bare.Specimens, s)
	}
	return bare
}

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// validate reports what is missing, and names that the package in dir does not declare.
func (c Collection) validate(dir string) error {
	source, err := declared.In(dir)
	if err != nil {
		return err
	}
	var errs []error
	bad := func(s Specimen, format string, args ...any) {
		errs = append(errs, fmt.Errorf("specimen %q: "+format, append([]any{s.Name}, args...)...))
	}
	seen := make(map[string]bool)
	for _, s := range c.Specimens {
		switch {
		case !nameForm.MatchString(s.Name) || seen[s.Name]:
			bad(s, "its name is not words with hyphens between, or another one's")
		case s.Title == "" || s.Story == "" || s.See == "" || s.Right == "":
			bad(s, "Title, Story, See or Right is empty")
		case len(s.Kills) == 0 || len(s.Sin) == 0 || len(s.Virtue) == 0:
			bad(s, "Kills, Sin or Virtue is empty")
		}
		seen[s.Name] = true
		for _, k := range s.Kills {
			if k.Check == "" || k.Says == "" {
				bad(s, "a kill without a check, or that may say anything")
			}
		}
		for _, name := range append(append([]string(nil), s.Sin...), s.Virtue...) {
			if _, ok := source[name]; !ok {
				bad(s, "the package declares no %s", name)
			}
		}
	}
	return errors.Join(errs...)
}
