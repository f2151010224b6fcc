package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/moduleroot"
)

// docs/doctor.md lists every finding exactly as the code does, and no other.
func TestDoctorIsDocumented(t *testing.T) {
	var want strings.Builder
	section := func(name string, list []backend.Finding) {
		fmt.Fprintf(&want, "\n## %s\n\n| severity | code | why it matters | what to set |\n|---|---|---|---|\n", name)
		codes := make(map[string]bool)
		for _, f := range slices.SortedStableFunc(slices.Values(list),
			func(a, b backend.Finding) int { return int(b.Severity - a.Severity) }) {
			fmt.Fprintf(&want, "| %v | `%s` | %s | %s |\n", f.Severity, f.Code, escaped(f.Why), escaped(f.Set))
			if codes[f.Code] || f.Code == "" || f.Why == "" || f.Set == "" {
				t.Errorf("%s: %+v is incomplete, or there twice", name, f)
			}
			codes[f.Code] = true
		}
	}
	section("Any store", kit.CommonFindings())
	for _, d := range driver.Registered() {
		switch {
		case len(d.Findings) > 0:
			section(d.Name, d.Findings)
		case d.Name != "pair" && d.Name != "memory" && !strings.HasPrefix(d.Name, "odd"):
			// pair has the findings of its stores, and memory has no server
			t.Errorf("%s has no findings", d.Name)
		}
	}
	root, err := moduleroot.Find()
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, "docs", "doctor.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- From the code: ANYLOCK_UPDATE=1 go test ./cmd/anylock -run TestDoctorIsDocumented -->\n"
	before, tables, ok := strings.Cut(string(text), mark)
	switch {
	case !ok:
		t.Fatalf("%s lacks the line %s", page, mark)
	case os.Getenv("ANYLOCK_UPDATE") == "1":
		if err := os.WriteFile(page, []byte(before+mark+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	case tables != want.String():
		t.Errorf("%s is not what the code says; run ANYLOCK_UPDATE=1 go test ./cmd/anylock -run TestDoctorIsDocumented", page)
	}
}

func escaped(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
