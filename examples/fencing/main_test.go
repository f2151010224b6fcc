//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/anylock/lock/internal/servers"
)

const pageFile = "../../docs/fencing.md"

var (
	pageOutput = regexp.MustCompile("(?ms)^<!-- examples/fencing prints -->\n```text\n(.*?)^```$")
	tokens     = regexp.MustCompile(`\b\d{15,}\b`)
)

// The demo prints what docs/fencing.md shows, but for the tokens.
func TestDemo(t *testing.T) {
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	shown := pageOutput.FindSubmatch(page)
	if shown == nil {
		t.Fatalf("%s does not show what the demo prints", pageFile)
	}
	program := filepath.Join(t.TempDir(), "fencing")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "-db", servers.Postgres(t).PostgresURL())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Error(err)
	}
	const token = "TOKEN"
	got, want := tokens.ReplaceAllString(string(out), token), tokens.ReplaceAllString(string(shown[1]), token)
	if got != want {
		t.Errorf("the demo prints\n%s\nand the page shows\n%s", got, want)
	}
}
