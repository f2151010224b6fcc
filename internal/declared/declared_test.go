package declared

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const source = `package x

import "fmt"

// take takes.
func take() { fmt.Println() }

type store struct{}

// remove removes.
func (s *store) remove() {}

const (
	one = 1
	two = 2 // comments behind are left out
)

var script = ` + "`\nGET\n`" + `
`

func TestIn(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"x.go": source, "x_test.go": "package x\n\nfunc inTest() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := In(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"take":         "// take takes.\nfunc take() { fmt.Println() }",
		"store":        "type store struct{}",
		"store.remove": "// remove removes.\nfunc (s *store) remove() {}",
		"two":          "const two = 2",
		"script":       "var script = `\nGET\n`",
	} {
		if found[name] != want {
			t.Errorf("%s: %q, want %q", name, found[name], want)
		}
	}
	if _, ok := found["inTest"]; ok {
		t.Error("what tests declare is found")
	}
}
