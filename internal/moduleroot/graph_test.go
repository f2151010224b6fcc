package moduleroot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbidden matches modules that no user of the library should have to download.
var forbidden = regexp.MustCompile(`docker|moby|testcontainers|cobra`)

// A user's module needs few other modules. "go mod tidy" also downloads those that the tests of imported packages
// import.
func TestUserModules(t *testing.T) {
	root, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	for store, most := range map[string]int{"memory": 0, "redis": 24, "etcd": 69} {
		t.Run(store, func(t *testing.T) {
			sums := tidy(t, root, store)
			if len(sums) > most {
				t.Errorf("go.sum has %d lines, more than %d", len(sums), most)
			}
			for _, line := range sums {
				if forbidden.MatchString(line) {
					t.Errorf("go.sum has %s", line)
				}
			}
		})
	}
}

// tidy creates a module that imports this checkout's package lock and a store, and returns the lines of its go.sum.
func tidy(t *testing.T, root, store string) (sums []string) {
	t.Helper()
	dir := t.TempDir()
	const module = "github.com/anylock/lock"
	for name, text := range map[string]string{
		"go.mod": fmt.Sprintf("module example.test/user\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %[1]s => %q\n", module,
			root),
		"user.go": fmt.Sprintf("package user\n\nimport (\n\t_ %q\n\t_ %q\n)\n", module, module+"/"+store),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "mod", "tidy")
	cmd.Dir = dir
	// The checksum database is off, so that the test needs no network once the modules are on this machine.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOSUMDB=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}
