package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The commands of docs/switching.md work in their order.
func TestSwitchingDoc(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/switching.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(doc), -1) {
		script.WriteString(block[1])
	}
	sh := exec.Command("sh", "-e", "-u", "-x")
	sh.Dir = t.TempDir()
	sh.Stdin = strings.NewReader(script.String())
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{"under both", "passed: the store's number is", "under the new store", "base  "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}
