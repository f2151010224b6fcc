package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// A container that has a boot id of its own, as with LXC, shares locks with its host and with other containers.
func TestContainerWithOwnBootID(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file over the boot id")
	}
	dir := t.TempDir()
	container := func(n int) *child {
		id := filepath.Join(t.TempDir(), "boot_id")
		if err := os.WriteFile(id, fmt.Appendf(nil, "6f9c2a51-7c9e-4a4d-9a7c-%012d\n", n), 0o444); err != nil {
			t.Fatal(err)
		}
		return start(t, dir, "shell", bootVariable+"="+id)
	}
	host, first, second := open(t, dir), container(1), container(2)
	command := func(c *child, line, want string) {
		t.Helper()
		fmt.Fprintln(c.in, line) // an error means that the child has ended
		switch answer := c.answer(); {
		case answer == "error mount operation not permitted":
			t.Skip(answer)
		case !strings.HasPrefix(answer, want):
			t.Errorf("%s: %s, want %s", line, answer, want)
		}
	}
	l := mustTry(t, host, "k", time.Hour)
	command(first, "try k 60000", "held")
	command(second, "try k 60000", "held")
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	command(first, "try k 60000", "ok")
	command(second, "try k 60000", "held")
	if _, err := try(host, "k", time.Minute); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("the host tries a container's key: %v, want ErrHeld", err)
	}
	command(first, "release", "ok")
	command(second, "try k 60000", "ok")
}
