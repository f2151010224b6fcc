//go:build terraform

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Terraform's http backend locks and unlocks its state. The tests of package lockhttp contain its recorded requests.
func TestTerraform(t *testing.T) {
	t.Parallel()
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		if terraform, err = exec.LookPath("tofu"); err != nil {
			t.Fatal("there is neither terraform nor tofu")
		}
	}
	s := serveOn(t, fileURL(t.TempDir()))
	var state []byte
	stateServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			state, _ = io.ReadAll(r.Body)
		case state == nil:
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Write(state)
		}
	}))
	defer stateServer.Close()
	dir := t.TempDir()
	lockURL := s.url + "/v1/terraform/net%2Fprod"
	config := fmt.Sprintf(`terraform {
  backend "http" {
    address = %q
    lock_address = %q
    unlock_address = %q
  }
}
output "o" { value = "1" }
`, stateServer.URL, lockURL, lockURL)
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(terraform, append([]string{"-chdir=" + dir}, args...)...)
		cmd.Env = append(os.Environ(), "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("init", "-input=false", "-no-color"); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	if out, err := run("apply", "-auto-approve", "-input=false", "-no-color"); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	if text := s.want(200, "GET", "/v1/locks/net%2Fprod", ""); !strings.Contains(text, `"held":false`) {
		t.Errorf("after apply: %s", text)
	}
	info := `{"ID":"11111111-2222-3333-4444-555555555555","Operation":"OperationTypeApply","Who":"me@host","Version":"1","Created":"2026-01-01T00:00:00Z"}`
	s.want(200, "LOCK", "/v1/terraform/net%2Fprod", info)
	out, err := run("apply", "-auto-approve", "-input=false", "-no-color")
	if err == nil || !strings.Contains(out, "11111111-2222-3333-4444-555555555555") {
		t.Errorf("apply of a locked state: %v\n%s", err, out)
	}
	if out, err := run("force-unlock", "-force", "11111111-2222-3333-4444-555555555555"); err != nil {
		t.Errorf("force-unlock: %v\n%s", err, out)
	}
	if out, err := run("apply", "-auto-approve", "-input=false", "-no-color"); err != nil {
		t.Errorf("apply after force-unlock: %v\n%s", err, out)
	}
}
