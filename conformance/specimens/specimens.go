// Package specimens has well-known wrong ways to lock. Each is a complete small store on a real server, which
// implements package backend and works until something fails. Package conformance must find every one.
//
// The packages below, one for each server, have a [Collection]: a small correct store, the twin, and specimens of it in
// which one step is wrong. A specimen differs from the twin only in this step, so a check can find nothing else.
// [Prove] runs the suite on them.
//
// These packages show bugs, and only their tests import them, so they are in a separate module.
// docs/evidence/specimens.md is generated from their records.
package specimens

import (
	"context"
	"slices"
	"strings"

	"github.com/anylock/lock/backend"
)

// An Open returns a new client of a specimen or its twin, which has the servers at addrs.
type Open func(ctx context.Context, addrs ...string) (backend.Backend, error)

// A Collection is the specimens of one server.
type Collection struct {
	Store     string     `json:"store"` // as people write it: "Redis"
	Twin      Open       `json:"-"`     // opens the store that is right
	Specimens []Specimen `json:"specimens"`
}

// A Specimen is one wrong way to lock.
type Specimen struct {
	Name  string `json:"name"`  // as in "setnx-then-expire"
	Title string `json:"title"` // in a few words
	Story string `json:"story"` // two to five sentences: who does it, and what happens
	See   string `json:"see"`   // where it is described, by name: "Redis manual, SETNX page"
	Right string `json:"right"` // the right way, in a sentence

	// Sin and Virtue name what the package declares, and docs/evidence/specimens.md shows: the step that is wrong, and
	// the one of the twin that it stands for. A method is "type.method".
	Sin    []string `json:"sin"`
	Virtue []string `json:"virtue"`

	Open  Open   `json:"-"`
	Kills []Kill `json:"kills"`
}

// A Kill is one check that must fail for a specimen, and pass for its twin.
type Kill struct {
	Check string `json:"check"`
	// Says is what the failing check's output must contain, so that it fails for the specimen's sin and nothing else.
	Says string `json:"says"`
	// OrSays is another way in which the same sin shows, if there is one.
	OrSays string `json:"or_says,omitempty"`
	// Evidence is the output of a run that was recorded.
	Evidence string `json:"evidence"`
}

// said returns which of the texts that show the sin is in output, empty if none is.
func (k Kill) said(output string) string {
	for _, text := range []string{k.Says, k.OrSays} {
		if text != "" && strings.Contains(output, text) {
			return text
		}
	}
	return ""
}

// Join puts lists of specimens together.
func Join(lists ...[]Specimen) []Specimen { return slices.Concat(lists...) }
