package lock_test

import (
	"errors"
	"fmt"
	"go/version"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/anylock/lock"

// dependencies lists what each package for applications may depend on, so that an application links only the store that
// it uses: own are packages of this module, others are beginnings of other import paths. The standard library is always
// allowed. Add a line here for a new store.
var dependencies = map[string]struct{ own, others []string }{
	"":                {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm"}},
	"/backend":        {},
	"/backend/kit":    {own: []string{"/backend", "/internal/alarm"}},
	"/backend/driver": {own: []string{"/backend", "/backend/kit", "/internal/alarm"}},
	"/backend/tlsurl": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm"}},
	"/memory":         {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm"}},
	"/locktest":       {own: []string{"", "/backend", "/backend/driver", "/backend/kit", "/memory", "/internal/alarm"}},
	"/recipe":         {own: []string{"", "/backend", "/backend/driver", "/backend/kit", "/internal/alarm"}},
	"/lockhttp":       {own: []string{"", "/backend", "/backend/driver", "/backend/kit", "/internal/alarm"}},
	"/pair": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm",
		"/internal/calls"}},
	"/file": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm",
		"/internal/calls"}, others: []string{"golang.org/x/sys/"}},
	"/fence":           {own: []string{"/backend", "/internal/alarm", "/internal/tablesql"}},
	"/fence/fencehttp": {own: []string{"/backend", "/fence", "/internal/alarm", "/internal/tablesql"}},
	"/fence/redisfence": {own: []string{"/backend", "/fence", "/internal/alarm", "/internal/tablesql"},
		others: []string{"github.com/redis/go-redis/v9"}},
	"/redis": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/backend/tlsurl", "/internal/alarm",
		"/internal/calls", "/internal/eager", "/redis/internal/endpoint", "/redis/internal/exchange"},
		others: []string{"github.com/redis/go-redis/v9"}},
	"/redis/redlock": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/backend/tlsurl", "/internal/alarm",
		"/internal/calls", "/internal/eager", "/redis/internal/endpoint", "/redis/internal/exchange"},
		others: []string{"github.com/redis/go-redis/v9"}},
	"/memcached": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm", "/internal/calls",
		"/backend/tlsurl"}, others: []string{"github.com/bradfitz/gomemcache/"}},
	"/zookeeper": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm", "/internal/calls",
		"/backend/tlsurl"}, others: []string{"github.com/go-zookeeper/zk"}},
	"/postgres": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm", "/internal/calls",
		"/internal/pgurl"}, others: []string{"github.com/jackc/pgx/v5"}},
	"/sqltable": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm", "/internal/calls",
		"/internal/tablesql"}},
	"/sqltable/pgtable": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm",
		"/internal/calls", "/internal/pgurl",
		"/internal/tablesql", "/sqltable"}, others: []string{"github.com/jackc/pgx/v5"}},
	"/etcd": {own: []string{"/backend", "/backend/driver", "/backend/kit", "/internal/alarm", "/internal/calls",
		"/backend/tlsurl"}, others: []string{
		"go.etcd.io/etcd/client/", "go.etcd.io/etcd/api/v3", "go.uber.org/zap", "google.golang.org/grpc",
	}},
	"/conformance/process": {own: []string{"/backend", "/backend/kit", "/conformance", "/internal/alarm",
		"/internal/skew"}, others: []string{
		"github.com/anishathalye/porcupine", "golang.org/x/sys/unix",
	}},
	"/conformance/link": {own: []string{"/conformance", "/backend", "/backend/driver", "/backend/kit", "/internal/alarm"},
		others: []string{"github.com/anishathalye/porcupine"}},
	"/conformance": {own: []string{"/backend", "/backend/kit", "/internal/alarm"},
		others: []string{"github.com/anishathalye/porcupine"}},
}

// freePackages are not for applications to import, and may depend on anything.
var freePackages = []string{"/cmd/", "/internal/", "/redis/internal/", "/bench"}

func TestDependencies(t *testing.T) {
	imports := listImports(t)
	for path, allowed := range dependencies {
		t.Run("lock"+path, func(t *testing.T) {
			if _, exists := imports[module+path]; !exists {
				t.Fatalf("there is no package %s", module+path)
			}
			for _, own := range reach(imports, module+path) {
				if own != module+path && !slices.Contains(allowed.own, strings.TrimPrefix(own, module)) {
					t.Errorf("depends on %s", own)
				}
				for _, p := range imports[own] {
					if thirdParty(p) && !slices.ContainsFunc(allowed.others, func(o string) bool { return under(p, o) }) {
						t.Errorf("imports %s (in %s)", p, own)
					}
				}
			}
		})
	}
	for path := range imports {
		rest := strings.TrimPrefix(path, module)
		isFree := slices.ContainsFunc(freePackages, func(f string) bool { return under(rest+"/", f) })
		if _, listed := dependencies[rest]; !listed && !isFree {
			t.Errorf("%s is not in this test's list: add what it may depend on", path)
		}
	}
}

// According to the go command, these packages depend on nothing but this module and the standard library.
func TestRootNeedsNoModule(t *testing.T) {
	for _, path := range []string{"", "/backend", "/memory", "/pair", "/recipe", "/fence", "/lockhttp"} {
		out := goList(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+path)
		for _, dep := range out {
			if !under(dep, module) {
				t.Errorf("%s depends on %s", module+path, dep)
			}
		}
	}
}

// listImports returns what each package of this module imports outside of its tests, on Linux, macOS and Windows. -e
// lists our packages even if a module that only another system needs is not available.
func listImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := make(map[string][]string)
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, line := range goListFor(t, system, "-e", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
			fields := strings.Fields(line)
			imports[fields[0]] = append(imports[fields[0]], fields[1:]...)
		}
	}
	return imports
}

// reach returns path and all packages of this module that it depends on.
func reach(imports map[string][]string, path string) []string {
	found := []string{path}
	for i := 0; i < len(found); i++ {
		for _, p := range imports[found[i]] {
			if under(p, module) && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// thirdParty reports whether a package belongs neither to this module nor to the standard library. The first element of
// a standard library path has no dot.
func thirdParty(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".") && !under(path, module)
}

// under reports whether path is prefix or below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	return goListFor(t, "", args...)
}

func goListFor(t *testing.T, system string, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	if system != "" {
		cmd.Env = append(cmd.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	}
	out, err := cmd.Output()
	if err != nil {
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			err = fmt.Errorf("%w: %s", err, e.Stderr)
		}
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// The go line of go.mod is as low as the modules that we import allow.
func TestGoLine(t *testing.T) {
	lowest := "go1"
	// List packages, whose modules have been downloaded. "go list -m all" would also request modules from a proxy that no
	// package here is built from.
	const format = "-f={{with .Module}}{{if not (or .Main .Indirect)}}go{{.GoVersion}}{{end}}{{end}}"
	for _, v := range goList(t, "-deps", "-test", format, "./...") {
		if version.Compare(v, lowest) > 0 {
			lowest = v
		}
	}
	if ours := "go" + goList(t, "-m", "-f={{.GoVersion}}")[0]; ours != lowest {
		t.Errorf("go.mod says %s, and could say %s", ours, lowest)
	}
}
