package moduleroot

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A test must wait for an event, not for time. A call of time.Sleep is allowed in a bubble of testing/synctest, where
// time is fake, and as the pause of a polling loop ("for …; …; time.Sleep(pause)"). Any other call must explain the
// sleep on its line:
//
//	time.Sleep(ttl) // sleeps: the TTL must pass
//
// The test recognizes the bubbles of synctest.Test, and of functions that run a function parameter under synctest.Test.
// A helper that runs only in bubbles needs the comment "// sleeps: in fake time".
func TestSleepsAreExplained(t *testing.T) {
	root := find(t)
	fset := token.NewFileSet()
	folders := map[string][]*ast.File{}
	walk(t, root, func(file string) {
		folder := path.Dir(file)
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		folders[folder] = append(folders[folder], parse(t, fset, filepath.Join(root, file), nil))
	})
	for _, files := range folders {
		for _, at := range unexplainedSleeps(fset, files) {
			t.Errorf("%s:%d: time.Sleep without \"// sleeps: …\"", strings.TrimPrefix(at.Filename, root+"/"), at.Line)
		}
	}
}

func parse(t *testing.T, fset *token.FileSet, file string, src any) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// unexplainedSleeps returns the calls of time.Sleep in the test files of a folder that break the rule.
func unexplainedSleeps(fset *token.FileSet, files []*ast.File) (found []token.Position) {
	bubbles := bubbleFuncs(files)
	for _, tree := range files {
		explained := map[int]bool{}
		for _, group := range tree.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "// sleeps: ") {
					explained[fset.Position(c.Pos()).Line] = true
				}
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt:
				if pause, ok := n.Post.(*ast.ExprStmt); ok && isCall(pause.X, "time", "Sleep") {
					explained[fset.Position(pause.Pos()).Line] = true
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); isCall(n, "synctest", "Test") || ok && bubbles[f.Name] {
					return false
				}
				if at := fset.Position(n.Pos()); isCall(n, "time", "Sleep") && !explained[at.Line] {
					found = append(found, at)
				}
			}
			return true
		})
	}
	return found
}

// bubbleFuncs returns the functions that run a function parameter under synctest.Test, and nowhere else.
func bubbleFuncs(files []*ast.File) map[string]bool {
	bubbles := map[string]bool{}
	for _, tree := range files {
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || f.Body == nil {
				continue
			}
			for _, p := range f.Type.Params.List {
				if _, ok := p.Type.(*ast.FuncType); ok && len(p.Names) == 1 && isBubbled(f.Body, p.Names[0].Name) {
					bubbles[f.Name.Name] = true
				}
			}
		}
	}
	return bubbles
}

// isBubbled reports whether body uses name, and only in calls of synctest.Test.
func isBubbled(body ast.Node, name string) bool {
	inside, outside := false, false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isCall(n, "synctest", "Test") {
				inside = inside || mentions(n, name)
				return false
			}
		case *ast.Ident:
			outside = outside || n.Name == name
		}
		return true
	})
	return inside && !outside
}

func mentions(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
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
	bubble(t, func(t *testing.T) { time.Sleep(1) })
	both(t, func(t *testing.T) { time.Sleep(1) })
	neither(t, func(t *testing.T) { time.Sleep(1) })
}`
	const helpers = `package p
func bubble(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) { f(t) })
}
func both(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, f)
	f(t)
}
func neither(t *testing.T, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {})
	f(t)
}`
	fset := token.NewFileSet()
	files := []*ast.File{parse(t, fset, "p_test.go", src), parse(t, fset, "helpers_test.go", helpers)}
	var lines []int
	for _, at := range unexplainedSleeps(fset, files) {
		lines = append(lines, at.Line)
	}
	if want := []int{7, 8, 10, 11}; !slices.Equal(lines, want) {
		t.Errorf("reports lines %v, want %v", lines, want)
	}
}
