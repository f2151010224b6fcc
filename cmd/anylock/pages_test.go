//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	comment    = regexp.MustCompile(`\s+# .*$`)
)

// Every shell line with anylock in README.md and docs/command-line.md works, in a folder with the files that it names.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "docs/command-line.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				if line = comment.ReplaceAllString(strings.TrimSpace(line), ""); strings.Contains(line, "anylock ") &&
					!strings.HasPrefix(line, "go ") {
					ran++
					t.Run(line, func(t *testing.T) { t.Parallel(); runLine(t, line) })
				}
			}
		}
		if ran == 0 {
			t.Errorf("%s has no command", page)
		}
	}
}

// shorter replaces lines that would take long or that name a store that does not exist here. codes are the exit codes
// of lines that may end with another code than 0.
var (
	shorter = map[string]string{
		"anylock bench":                      "anylock bench --scenario serial --rounds 1 --duration 10ms",
		"anylock conform":                    "anylock conform --run BadInputIsRefused",
		"anylock switch --from URL --to URL": `anylock switch --from "$ANYLOCK_URL" --to "${ANYLOCK_URL}2"`,
		"anylock serve":                      "timeout -s TERM 1 anylock serve --listen 127.0.0.1:0",
		"source <(anylock completion bash)":  "source <(anylock completion bash) && complete -p anylock",
		"anylock hold deploy":                "anylock hold deploy </dev/null",
	}
	codes = map[string][]int{
		"anylock inspect": {exitFree}, "anylock break": {exitFree}, "anylock serve": {124}, // 124 is the exit code of timeout
		"anylock doctor": {exitOK, exitWarning},
	}
)

func runLine(t *testing.T, line string) {
	dir := t.TempDir()
	for _, name := range []string{"nightly.sh", "read.sh", "render.sh", "make", "migrate", "job"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := []int{exitOK}
	for prefix, c := range codes {
		if strings.HasPrefix(line, prefix) {
			want = c
		}
	}
	script := strings.ReplaceAll(line, "/srv", ".")
	if s := shorter[line]; s != "" {
		script = s
	}
	shell := exec.Command("bash", "-c", script)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "ANYLOCK_URL="+fileURL(filepath.Join(dir, "locks")),
		"PATH="+dir+":"+os.Getenv("PATH"))
	shell.WaitDelay = 10 * time.Second
	out, err := shell.CombinedOutput()
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code, err = exit.ExitCode(), nil
	}
	if err != nil || !slices.Contains(want, code) {
		t.Errorf("%s: %v, exit code %d, want %v\n%s", script, err, code, want, out)
	}
}
