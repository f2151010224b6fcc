//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The key stays held as long as a process of another user runs, also if /proc hides the processes of other users, as
// with its mount option hidepid.
func TestOtherPrivilegesHidden(t *testing.T) {
	t.Parallel()
	dir, command := playSudo(t)
	const hide = "mount -t proc -o hidepid=2 proc /proc"
	if out, err := exec.Command("unshare", "--mount", "sh", "-c", hide).CombinedOutput(); err != nil {
		t.Skipf("this machine cannot mount another /proc: %v, %s", err, out)
	}
	locks := folderOfNobody(t, filepath.Join(dir, "hidden"))
	holder := newJob(t, fileURL(locks), "k", command+"; true", "--ttl", "6")
	user := strconv.Itoa(nobody)
	hidden := exec.Command("unshare", append([]string{"--mount", "sh", "-c",
		hide + ` && exec setpriv --reuid ` + user + ` --regid ` + user + ` --clear-groups "$@"`,
		"sh", filepath.Join(dir, "anylock")}, holder.cmd.Args[1:]...)...)
	holder.cmd.Path, holder.cmd.Args, holder.cmd.Dir = hidden.Path, hidden.Args, dir
	holder.start()
	ids := holder.pids(2)
	if ids[0] != 0 {
		t.Fatalf("the command runs as user %d, not as root: is %s mounted with nosuid?", ids[0], dir)
	}
	t.Cleanup(func() { syscall.Kill(ids[1], syscall.SIGKILL) })
	holder.signal(syscall.SIGTERM)
	holder.says("run anylock itself as that user, as in: sudo anylock run")
	if err := syscall.Kill(ids[1], syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	holder.finish(exitSignal + int(syscall.SIGTERM))
}
