// Package moduleroot finds the folder of this module, for the programs and tests that generate and check its documents.
package moduleroot

import (
	"fmt"
	"os"
	"path/filepath"
)

// Find returns the nearest folder with a go.mod, from the current folder upwards.
func Find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod here or above")
		}
		dir = parent
	}
}
