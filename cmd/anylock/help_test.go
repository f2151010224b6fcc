package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/anylock/lock"
)

// Help fits in 80 columns, the width of a terminal and of an e-mail.
func TestHelpFitsEightyColumns(t *testing.T) {
	t.Parallel()
	root := new(app).rootCommand()
	commands := append(root.Commands(), root)
	for _, cmd := range root.Commands() {
		commands = append(commands, cmd.Commands()...) // the subcommands of completion
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

// The flag --require accepts every value that completion offers.
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

// The help of a command that does not open the store of --backend omits that flag. The help of other commands lists it.
func TestHelpListsBackendOnlyWhereItCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		want    bool
	}{
		{"run", true}, {"doctor", true}, {"bench", true}, // bench defines its own --backend
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
