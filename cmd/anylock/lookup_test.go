//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A folder of $PATH that may not be looked into, as su(1) leaves those of root, is no reason to say that the program was found.
func TestLookupPastClosedFolder(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(closed, "x")); !errors.Is(err, os.ErrPermission) {
		t.Skip("root may look into every folder")
	}
	if _, err := lookup("nosuchcommand", closed+":/usr/bin"); !errors.Is(err, errNotInPath) {
		t.Errorf("%v", err)
	}
}
