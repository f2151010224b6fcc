package main

import (
	"bytes"
	"go/format"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCostliest(t *testing.T) {
	t.Parallel()
	costs := map[string]time.Duration{
		"A": 1 * time.Second, "B": 5 * time.Second, "C": 3 * time.Second, "D": 1 * time.Second, "E": 0,
	}
	for share, want := range map[float64][]string{
		0: nil, 0.5: {"B"}, 0.51: {"B", "C"}, 0.8: {"B", "C"}, 0.81: {"A", "B", "C"}, 1: {"A", "B", "C", "D"},
	} {
		if got := costliest(costs, share); !slices.Equal(got, want) {
			t.Errorf("share %v: %q, want %q", share, got, want)
		}
	}
}

// The written file is formatted Go, and states what was measured.
func TestSource(t *testing.T) {
	t.Parallel()
	costs := map[string]time.Duration{"A": 1 * time.Second, "B": 5 * time.Second}
	text := source([]string{"etcd", "postgres"}, []string{"B"}, costs)
	formatted, err := format.Source(text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, formatted) {
		t.Errorf("not formatted:\n%s", text)
	}
	for _, want := range []string{"On etcd, postgres the checks took", "5 CPU-seconds of 6", "\t\"B\",\n}"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
