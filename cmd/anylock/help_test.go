package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/anylock/lock"
)

// A terminal and a mail have 80 columns.
func TestHelpFitsEightyColumns(t *testing.T) {
	t.Parallel()
	root := new(app).rootCommand()
	for _, cmd := range append(root.Commands(), root) {
		if cmd.Hidden {
			continue
		}
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help"))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "Usage:") {
			t.Errorf("%s: no help", cmd.CommandPath())
		}
		for line := range strings.Lines(out.String()) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
	}
}

// What completion offers for --require is what the flag takes.
func TestCompletedRequirementsAreAccepted(t *testing.T) {
	t.Parallel()
	values := map[string]string{"max-leases=": "3", "max-late=": "1s", "min-ttl=": "1s", "max-ttl=": "1s",
		"max-silence=": "1s"}
	for _, text := range requirable {
		if isBeginning(text) != (values[text] != "") {
			t.Fatalf("%s: this test has no value", text)
		}
		var need lock.Need
		if err := need.UnmarshalText([]byte(text + values[text])); err != nil || need == (lock.Need{}) {
			t.Errorf("%s: %v, %+v", text, err, need)
		}
	}
}
