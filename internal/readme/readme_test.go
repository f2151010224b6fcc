package main

import (
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/moduleroot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eachDocument runs test for each of documents.
func eachDocument(t *testing.T, test func(t *testing.T, dir, file, text string)) {
	t.Helper()
	dir, err := moduleroot.Find()
	if err != nil {
		t.Fatal(err)
	}
	files, err := documents(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) { test(t, dir, file, string(text)) })
	}
}

func TestGeneratedPartsAreUpToDate(t *testing.T) {
	var seen []string
	eachDocument(t, func(t *testing.T, _, _, text string) {
		fresh, names, err := generate(text)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, names...)
		if fresh != text {
			t.Error(`a generated part is out of date: run "make docs"`)
		}
	})
	for _, p := range parts {
		if !slices.Contains(seen, p.name) {
			t.Errorf("no document shows the part %q", p.name)
		}
	}
}

func TestGenerate(t *testing.T) {
	table, err := parts[0].make()
	if err != nil {
		t.Fatal(err)
	}
	begin, end := marker("guarantees", "begin"), marker("guarantees", "end")
	want := "a\n" + begin + "\n" + strings.TrimSpace(table) + "\n" + end + "\nb\n"
	for _, old := range []string{"", "\n", "\nold\ntext\n"} {
		got, names, err := generate("a\n" + begin + old + end + "\nb\n")
		if got != want || err != nil || !slices.Equal(names, []string{"guarantees"}) {
			t.Errorf("%q: %q, %v, %v", old, got, names, err)
		}
	}
	if got, names, err := generate("nothing"); got != "nothing" || names != nil || err != nil {
		t.Errorf("%q, %v, %v", got, names, err)
	}
	for _, bad := range []string{begin, end, end + begin, begin + end + begin + end} {
		if _, _, err := generate(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, store := range []string{"memory", "file", "redis"} {
		if !strings.Contains(table, store) {
			t.Errorf("the table does not show %s", store)
		}
	}
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// Complete programs compile, and other Go code parses. An adapter's program needs the adapter's module, whose TestPage
// compiles it.
func TestCodeCompiles(t *testing.T) {
	programs := 0
	eachDocument(t, func(t *testing.T, dir, file, text string) {
		ofAdapter := filepath.Base(filepath.Dir(file)) == "adapters"
		for i, block := range goBlock.FindAllStringSubmatch(text, -1) {
			code := block[1]
			if !strings.HasPrefix(code, "package main\n") {
				if _, err := format.Source([]byte(code)); err != nil {
					t.Errorf("block %d does not parse: %v\n%s", i+1, err, code)
				}
				continue
			}
			programs++
			if formatted, err := format.Source([]byte(code)); err != nil || string(formatted) != code {
				t.Errorf("program %d is not formatted by gofmt (%v):\n%s", i+1, err, code)
			}
			if ofAdapter {
				continue
			}
			if err := vet(dir, t.TempDir(), code); err != nil {
				t.Errorf("program %d: %v\n%s", i+1, err, code)
			}
		}
	})
	if programs == 0 {
		t.Error("no document shows a program")
	}
}

// vet type-checks a program as part of this module.
func vet(dir, temp, code string) error {
	file := filepath.Join(temp, "main.go")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "vet", file)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// The target of each link within the repository exists, and so does the heading that the link names.
func TestLinksLeadSomewhere(t *testing.T) {
	eachDocument(t, func(t *testing.T, _, file, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", m[1], err)
				continue
			}
			if anchor == "" || filepath.Ext(target) != ".md" {
				continue
			}
			page, err := os.ReadFile(target)
			if err != nil {
				t.Error(err)
			} else if !slices.Contains(anchors(string(page)), anchor) {
				t.Errorf("%s: the page has no heading #%s", m[1], anchor)
			}
		}
	})
}

var (
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$|<a id="([^"]+)">`)
	notInNames = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the names by which links refer to the headings of a page, as GitHub derives them.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(anyBlock.ReplaceAllString(text, ""), -1) {
		name := m[2]
		if name == "" {
			name = strings.ReplaceAll(notInNames.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		}
		names = append(names, name)
	}
	return names
}

func TestAnchors(t *testing.T) {
	const page = "# One turn, at a `time`\n\n```sh\n# no heading\n```\n<a id=\"made-by-hand\"></a>\n\n### Was *es* " +
		"für_Folgen hat\n"
	want := []string{"one-turn-at-a-time", "made-by-hand", "was-es-für_folgen-hat"}
	if got := anchors(page); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

var anyBlock = regexp.MustCompile("(?ms)^```.*?^```$")

// The Chinese README shows the same code, the same headings and the same links as the English one.
func TestChineseReadmeFollows(t *testing.T) {
	english, translated := "", ""
	eachDocument(t, func(_ *testing.T, _, file, text string) {
		switch filepath.Base(file) {
		case "README.md":
			if english == "" { // docs contains a README.md too
				english = text
			}
		case chinese:
			translated = text
		}
	})
	if want, got := anyBlock.FindAllString(english, -1), anyBlock.FindAllString(translated, -1); !slices.Equal(got, want) {
		t.Errorf("%s shows other code than the README: %q, not %q", chinese, got, want)
	}
	if want, got := strings.Count(english, "\n## "), strings.Count(translated, "\n## "); got != want {
		t.Errorf("%s has %d headings, the README %d", chinese, got, want)
	}
	want, got := targets(english, chinese), targets(translated, "README.md")
	if !slices.Equal(got, want) {
		t.Errorf("%s links to %q, the README to %q", chinese, got, want)
	}
}

// targets returns the targets of the links of text, except the page in the other language.
func targets(text, other string) (list []string) {
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if m[1] != other {
			list = append(list, m[1])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// The doc comment of each store lists every parameter of its URLs.
func TestDocCommentsListParams(t *testing.T) {
	root, err := moduleroot.Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range driver.Registered() {
		params := d.AllParams()
		if len(params) == 0 {
			continue
		}
		dir := d.Name
		switch d.Name {
		case "redlock":
			dir = filepath.Join("redis", dir)
		case "postgres-table":
			dir = filepath.Join("sqltable", "pgtable")
		}
		text, err := os.ReadFile(filepath.Join(root, dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range params {
			if p.Name != driver.ParamPassword && !regexp.MustCompile(`(?m)^//\t(.*, )?`+p.Name+`=`).Match(text) {
				t.Errorf("%s/doc.go does not list %s", dir, p.Name)
			}
		}
	}
}
