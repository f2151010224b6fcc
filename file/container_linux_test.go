package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A container that has a boot id of its own, as with LXC, cannot tell the leases of its host from those of an earlier
// boot. It is refused, and is not granted a key that a process of the host holds.
func TestContainerWithOwnBootID(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file over the boot id")
	}
	id := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(id, []byte("6f9c2a51-7c9e-4a4d-9a7c-0d5f1f0c6b1e\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mustTry(t, open(t, dir), "k", time.Hour)
	c := start(t, dir, "shell", bootVariable+"="+id)
	fmt.Fprintln(c.in, "try k 60000") // an error means that the child has ended
	switch line := c.answer(); {
	case line == "error mount operation not permitted":
		t.Skip(line)
	case !strings.HasPrefix(line, "error") || !strings.Contains(line, "hides the boot id"):
		t.Errorf("the container's try of a held key: %s", line)
	}
}
