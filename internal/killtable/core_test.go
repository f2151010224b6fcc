package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/bugmatrix"
)

// coreOf returns the core if row are the checks that find "a bug". Further mutants have no record.
func coreOf(row []string, more ...mutant) (core []string, source string) {
	f := &findings{
		checks:  make(map[string]conformance.Check),
		mutants: append([]mutant{{"a bug", "OneAttemptWins"}}, more...),
		matrix: bugmatrix.Matrix{
			Checks: []string{"FIFO", "OneAttemptWins", gateCheck},
			Rows:   map[string][]string{"a bug": row},
		},
	}
	return f.core(), f.coreSource()
}

func TestCore(t *testing.T) {
	both := []string{"FIFO", "OneAttemptWins"}
	for _, test := range []struct {
		name string
		row  []string
		more []mutant
		want []string
	}{
		{"one check is enough", both, nil, []string{gateCheck, "OneAttemptWins"}},
		{"the only finder", []string{"FIFO"}, nil, []string{gateCheck, "FIFO"}},
		{"found by chance: the check that is there for it", nil, nil, []string{gateCheck, "OneAttemptWins"}},
		{"no record: the check that is there for it", both, []mutant{{"another bug", "FIFO"}}, []string{gateCheck, "FIFO"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, source := coreOf(test.row, test.more...)
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			for _, check := range []string{"FIFO", "OneAttemptWins", gateCheck} {
				if slices.Contains(got, check) == strings.Contains(source, `"`+check+`"`) {
					t.Errorf("%s is on both lists, or on none: %s", check, source)
				}
			}
		})
	}
}

// A check without a record is not listed as beyond the core.
func TestNewCheckIsInTheCore(t *testing.T) {
	_, source := coreOf([]string{"FIFO"})
	if strings.Contains(source, `"LostAtDeadline"`) {
		t.Error(source)
	}
}
