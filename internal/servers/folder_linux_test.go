package servers

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A folder in memory is removed after its process has ended, by the next process, and not before.
func TestFoldersOfEndedProcesses(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	ended, live := lockedFolder(parent), lockedFolder(parent)
	defer live.Close()
	if err := os.WriteFile(filepath.Join(ended.Name(), "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended.Close() // as the end of the process does
	defer lockedFolder(parent).Close()
	if _, err := os.Stat(ended.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the process that has ended: %v", err)
	}
	if _, err := os.Stat(live.Name()); err != nil {
		t.Errorf("the folder of the live process: %v", err)
	}
}
