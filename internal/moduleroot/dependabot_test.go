package moduleroot

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Dependabot updates only the modules that its settings list.
func TestDependabotListsEveryModule(t *testing.T) {
	root := find(t)
	settings, err := os.ReadFile(filepath.Join(root, ".github", "dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var listed, modules []string
	for line := range strings.Lines(string(settings)) {
		if folder, ok := strings.CutPrefix(strings.TrimSpace(line), "- /"); ok {
			listed = append(listed, "/"+folder)
		}
	}
	walk(t, root, func(file string) {
		if path.Base(file) == "go.mod" {
			modules = append(modules, path.Dir("/"+file))
		}
	})
	slices.Sort(listed)
	slices.Sort(modules)
	if !slices.Equal(listed, modules) {
		t.Errorf("dependabot.yml lists %v, but the modules are %v", listed, modules)
	}
}

func find(t *testing.T) string {
	t.Helper()
	root, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// walk calls visit with every file of the repository, relative to root and with slashes.
func walk(t *testing.T, root string, visit func(file string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() {
			visit(file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
