//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// The script in docs/recipes.md does its work under the lock, and does nothing if it cannot acquire the lock.
func TestShellRecipe(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```sh\n(coproc .*?)```").FindSubmatch(page)
	if script == nil {
		t.Fatal("docs/recipes.md has no script with a coproc")
	}
	for url, works := range map[string]bool{fileURL(t.TempDir()): true, "redis://127.0.0.1:1": false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "deploy.sh"), []byte("#!/bin/sh\ntouch ran\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		shell := exec.Command("bash", "-c", string(script[1]))
		shell.Dir = dir
		shell.Env = append(os.Environ(), "ANYLOCK_URL="+url)
		out, err := shell.CombinedOutput()
		if (err == nil) != works {
			t.Errorf("%s: %v\n%s", url, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "ran")); (err == nil) != works {
			t.Errorf("%s: the deploy ran: %v, want %v\n%s", url, err == nil, works, out)
		}
	}
}
