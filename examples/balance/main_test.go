//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anylock/lock/internal/servers"
)

func TestBalance(t *testing.T) {
	program := filepath.Join(t.TempDir(), "balance")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lasts := "4s"
	if !testing.Short() {
		lasts = "30s"
	}
	url := servers.Postgres(t).PostgresURL()
	out, err := exec.CommandContext(t.Context(), program, "-db", url, "-for", lasts).CombinedOutput()
	t.Logf("%s", out)
	if err != nil || strings.HasPrefix(string(out), "0 entries") {
		t.Errorf("the balance: %v", err)
	}
}
