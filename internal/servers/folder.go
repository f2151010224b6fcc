package servers

import (
	"os"
	"testing"
)

// newFolder returns a new folder for a server's data. It is in memory if there is room: while other programs write to a
// disk, an fsync may take seconds, and short leases end in the meantime.
func newFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(memoryFolder(), "anylock-server-")
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("servers: %v", err)
		}
	})
	return dir
}
