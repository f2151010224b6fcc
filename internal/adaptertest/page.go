package adaptertest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	indent  = regexp.MustCompile(`(?m)^[\t ]+`)
)

// Page fails t unless page contains Go code, each block of this code occurs in the file source, and each link to a file
// leads to an existing file. Indentation does not matter.
func Page(t *testing.T, page, source string) {
	t.Helper()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	flat := func(code string) string { return indent.ReplaceAllString(code, "") }
	text, compiled := read(page), flat(read(source))
	blocks := goBlock.FindAllStringSubmatch(text, -1)
	if len(blocks) == 0 {
		t.Errorf("%s shows no code", page)
	}
	for _, block := range blocks {
		if !strings.Contains(compiled, flat(block[1])) {
			t.Errorf("%s has code that is not in %s:\n%s", page, source, block[1])
		}
	}
	links(t, page, text)
}

// Links fails t unless each link to a file on page leads to an existing file.
func Links(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	links(t, page, string(text))
}

func links(t *testing.T, page, text string) {
	t.Helper()
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		target, _, _ := strings.Cut(m[1], "#")
		if target == "" || strings.Contains(target, "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(target))); err != nil {
			t.Errorf("%s: %v", page, err)
		}
	}
}
