package file

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// directoryOf returns the directory that a file URL names.
func directoryOf(u driver.URL) (string, error) {
	dir := filepath.Clean(filepath.FromSlash(u.Path))
	switch {
	case strings.ContainsRune(dir, 0):
		return "", fmt.Errorf("%w: file url: NUL in the path", backend.ErrInvalid)
	case dir == string(filepath.Separator):
		return "", fmt.Errorf("%w: file url: the root directory is no place for locks", backend.ErrInvalid)
	}
	return dir, nil
}
