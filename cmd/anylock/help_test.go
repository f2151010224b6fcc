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
	commands := append(root.Commands(), root)
	for _, cmd := range root.Commands() {
		commands = append(commands, cmd.Commands()...) // those of completion
	}
	for _, cmd := range commands {
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

// A command that opens no store by --backend does not list the flag; the others do.
func TestHelpListsBackendOnlyWhereItCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		want    bool
	}{
		{"run", true}, {"doctor", true}, {"bench", true}, // bench has its own
		{"version", false}, {"table", false}, {"switch", false}, {"completion bash", false}, {"backends", false},
	} {
		var out bytes.Buffer
		root := new(app).rootCommand()
		root.SetOut(&out)
		root.SetArgs(append(strings.Fields(c.command), "--help"))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "--backend "); got != c.want {
			t.Errorf("%s: lists --backend: %v, want %v", c.command, got, c.want)
		}
		if !strings.Contains(out.String(), "--verbose") {
			t.Errorf("%s: --verbose is missing", c.command)
		}
	}
}
