package moduleroot

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// unexplained is how many calls of time.Sleep without an explanation the tests of a folder may have: those that were
// there before the rule. Lower a number when you remove or explain a call; never raise one.
var unexplained = map[string]int{
	".":                   19,
	"adapters/gocron":     2,
	"adapters/kubernetes": 1,
	"backend":             37,
	"cmd/anylock":         5,
	"etcd":                31,
	"examples/queue":      1,
	"file":                9,
	"internal/eager":      1,
	"memcached":           10,
	"otel":                4,
	"otel/prometheus":     1,
	"pair":                3,
	"postgres":            14,
	"recipe":              16,
	"redis":               11,
	"redis/redlock":       9,
	"zookeeper":           28,
}

// A test waits for an event. A call of time.Sleep is fine inside synctest.Test, whose time is fake, and as the pause
// of a polling loop ("for …; …; time.Sleep(pause)"). Any other says on its line what the sleep plays:
//
//	time.Sleep(ttl) // sleeps: the TTL must pass
func TestSleepsAreExplained(t *testing.T) {
	root := find(t)
	found := map[string][]string{}
	walk(t, root, func(file string) {
		folder := path.Dir(file)
		if !strings.HasSuffix(file, "_test.go") || folder == "internal/servers" || under(folder, "conformance") {
			return
		}
		sleeps, err := unexplainedSleeps(filepath.Join(root, file), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range sleeps {
			found[folder] = append(found[folder], fmt.Sprintf("%s:%d", file, line))
		}
	})
	for folder, sleeps := range found {
		if len(sleeps) > unexplained[folder] {
			t.Errorf("%s: %d calls of time.Sleep have no \"// sleeps: …\", and %d may:\n\t%s",
				folder, len(sleeps), unexplained[folder], strings.Join(sleeps, "\n\t"))
		}
	}
	for folder, allowed := range unexplained {
		if n := len(found[folder]); n < allowed {
			t.Errorf("%s: only %d calls of time.Sleep are left without an explanation; lower its number from %d", folder, n, allowed)
		}
	}
}

func under(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

// unexplainedSleeps returns the lines of a file whose call of time.Sleep breaks the rule. src is as in parser.ParseFile.
func unexplainedSleeps(file string, src any) ([]int, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	explained := map[int]bool{}
	for _, group := range tree.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "// sleeps: ") {
				explained[fset.Position(c.Pos()).Line] = true
			}
		}
	}
	var lines []int
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt:
			if pause, ok := n.Post.(*ast.ExprStmt); ok && isCall(pause.X, "time", "Sleep") {
				explained[fset.Position(pause.Pos()).Line] = true
			}
		case *ast.CallExpr:
			if isCall(n, "synctest", "Test") {
				return false
			}
			if line := fset.Position(n.Pos()).Line; isCall(n, "time", "Sleep") && !explained[line] {
				lines = append(lines, line)
			}
		}
		return true
	})
	return lines, nil
}

// isCall reports whether x calls function name of package pkg.
func isCall(x ast.Expr, pkg, name string) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	p, ok := f.X.(*ast.Ident)
	return ok && p.Name == pkg && f.Sel.Name == name
}

func TestUnexplainedSleeps(t *testing.T) {
	const src = `package p
func f() {
	synctest.Test(t, func(t *testing.T) { time.Sleep(1) })
	for ; !done(); time.Sleep(1) {
	}
	time.Sleep(1) // sleeps: the TTL must pass
	time.Sleep(1) // the TTL must pass
	go func() { time.Sleep(1) }()
}`
	lines, err := unexplainedSleeps("p_test.go", src)
	if got := fmt.Sprint(lines); err != nil || got != "[7 8]" {
		t.Errorf("reports lines %s, %v; want [7 8]", got, err)
	}
}
