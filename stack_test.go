package lock_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// The files of the package form a stack: none refers to a file that refers back to it, directly or not.
func TestFilesFormAStack(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var (
		set   = token.NewFileSet()
		files []*ast.File
	)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	check := types.Config{Importer: noImports{}, Error: func(error) {}} // imported names stay unknown
	pkg, _ := check.Check("lock", set, files, info)
	below := make(map[string][]string) // the files that a file refers to
	for id, object := range info.Uses {
		from, to := set.Position(id.Pos()).Filename, set.Position(object.Pos()).Filename
		_, isFunc := object.(*types.Func) // or a method
		if object.Pkg() == pkg && from != to && (isFunc || object.Parent() == pkg.Scope()) &&
			!slices.Contains(below[from], to) {
			below[from] = append(below[from], to)
		}
	}
	if len(below) < 10 {
		t.Fatalf("only %d files refer to others", len(below))
	}
	done := make(map[string]bool)
	var visit func(path []string)
	visit = func(path []string) {
		file := path[len(path)-1]
		if slices.Contains(path[:len(path)-1], file) {
			t.Errorf("a cycle: %s", strings.Join(path, " -> "))
			return
		}
		if done[file] {
			return
		}
		for _, next := range below[file] {
			visit(append(slices.Clone(path), next))
		}
		done[file] = true
	}
	for file := range below {
		visit([]string{file})
	}
}
