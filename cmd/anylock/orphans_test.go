//go:build linux

package main

import (
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { programsInPath["anylock-subreaper"] = mainSubreaper }

// mainSubreaper is main in a process that inherits the orphans among its descendants, like process 1 of a container.
func mainSubreaper() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	main()
}

// If the kernel makes anylock the parent of orphans, anylock reaps them and still returns its own command's exit code.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Each inner shell starts a process and ends before that process.
	script := `for i in 1 2 3 4 5; do sh -c '(while test ! -e "` + dir + `/go"; do sleep 0.02; done) & echo $!'; done
echo $$
while test ! -e '` + dir + `/end'; do sleep 0.02; done; exit 7`
	j := newJobOf(t, "anylock-subreaper", fileURL(t.TempDir()), "k", script)
	j.start()
	pids := j.pids(6)
	orphans := pids[:5] // their parents have ended, because the script prints its own id last
	j.group = pids[5]
	for _, pid := range orphans {
		if parent := statFields(filepath.Join("/proc", strconv.Itoa(pid),
			"stat"))[1]; parent != strconv.Itoa(j.cmd.Process.Pid) {
			t.Fatalf("the parent of the orphan is %s, not anylock", parent)
		}
	}
	create(t, filepath.Join(dir, "go")).Close()
	const poll = 5 * time.Millisecond
	for _, pid := range orphans {
		for end := time.Now().Add(patience); syscall.Kill(pid, 0) == nil; time.Sleep(poll) {
			if time.Now().After(end) {
				t.Fatal("nobody has reaped the orphan")
			}
		}
	}
	create(t, filepath.Join(dir, "end")).Close()
	j.finish(7)
	if said := j.said(); said != "" {
		t.Errorf("anylock said %q", said)
	}
}
