package file_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childClockVariable makes a child call unshare(CLONE_NEWTIME) at its start. The clock of the child's own children
// would then be ahead by this many seconds.
const childClockVariable = "ANYLOCK_TEST_CHILD_CLOCK"

// init runs on the main thread, whose namespaces /proc/self shows.
func init() {
	seconds := os.Getenv(childClockVariable)
	if seconds == "" {
		return
	}
	err := unix.Unshare(unix.CLONE_NEWTIME)
	if err == nil {
		err = os.WriteFile("/proc/self/timens_offsets", []byte("monotonic "+seconds+" 0"), 0)
	}
	if err != nil {
		fmt.Println("error time namespace:", err)
		os.Exit(1)
	}
}

// A process that has created a time namespace for its children still lives in its own time namespace. Its leases end by
// the clock of that namespace.
func TestTimeNamespaceOfChildren(t *testing.T) {
	t.Parallel()
	for _, seconds := range []string{"1000000", "-100"} {
		dir := t.TempDir()
		b := open(t, dir)
		c := start(t, dir, "shell", childClockVariable+"="+seconds)
		got := c.do("try k 60000")
		if strings.Contains(got, "error time namespace") {
			t.Skip(got) // not root
		}
		if _, ok := strings.CutPrefix(got, "ok"); !ok {
			t.Fatalf("the child's try: %s", got)
		}
		h, err := b.Inspect(t.Context(), "k")
		if err != nil || h.TTL > time.Minute || h.TTL < 30*time.Second {
			t.Errorf("%s s: another process sees the lease of 1m0s as %+v, %v", seconds, h, err)
		}
		c.ok("release")
		mustTry(t, b, "k", time.Minute)
		if got := c.do("try k 60000"); got != "held" {
			t.Errorf("%s s: the child's try of a held key: %s", seconds, got)
		}
	}
}
