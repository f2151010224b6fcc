// Package declared returns the declarations of a Go package as text for documents.
package declared

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// In returns the text of each declaration of the package in dir, by name: functions, methods as "type.method", types,
// constants and variables. The text includes the doc comment, except for declarations in parentheses. In ignores test
// files.
func In(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			collect(found, d, func(from, to token.Pos) string {
				return string(text[set.Position(from).Offset:set.Position(to).Offset])
			})
		}
	}
	return found, nil
}

// collect adds the declarations of d.
func collect(found map[string]string, d ast.Decl, text func(from, to token.Pos) string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		found[funcName(d)] = text(begin(d.Doc, d), d.End())
	case *ast.GenDecl:
		for _, s := range d.Specs {
			for _, name := range specNames(s) {
				if d.Lparen.IsValid() {
					found[name] = d.Tok.String() + " " + text(s.Pos(), s.End())
				} else {
					found[name] = text(begin(d.Doc, d), d.End())
				}
			}
		}
	}
}

func begin(doc *ast.CommentGroup, d ast.Decl) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return d.Pos()
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

func specNames(s ast.Spec) []string {
	switch s := s.(type) {
	case *ast.TypeSpec:
		return []string{s.Name.Name}
	case *ast.ValueSpec:
		var names []string
		for _, id := range s.Names {
			names = append(names, id.Name)
		}
		return names
	}
	return nil
}
