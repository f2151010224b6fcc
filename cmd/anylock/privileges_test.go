//go:build linux

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/internal/servers"
)

// If the command of an ordinary user runs a process as root, as sudo does, that user cannot stop the process. anylock
// reports this, and the key stays held as long as the process runs.
func TestOtherPrivileges(t *testing.T) {
	t.Parallel()
	dir, command := playSudo(t)
	asUser := &syscall.Credential{Uid: nobody, Gid: nobody}
	for name, command := range map[string]string{
		"direct":  "exec " + command,
		"beneath": command + "; true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locks := folderOfNobody(t, filepath.Join(dir, name))
			holder := newJob(t, fileURL(locks), "k", command, "--ttl", "6")
			holder.cmd.Path, holder.cmd.SysProcAttr.Credential, holder.cmd.Dir = filepath.Join(dir, "anylock"), asUser, dir
			holder.start()
			ids := holder.pids(2)
			if ids[0] != 0 {
				t.Fatalf("the command runs as user %d, not as root: is %s mounted with nosuid?", ids[0], dir)
			}
			t.Cleanup(func() { syscall.Kill(ids[1], syscall.SIGKILL) })
			holder.says("run anylock itself as that user, as in: sudo anylock run")
			holder.signal(syscall.SIGTERM)

			next := exec.Command(filepath.Join(dir, "anylock"), "run", "--backend", fileURL(locks), "-w", "8", "k", "--", "true")
			next.SysProcAttr, next.Dir = &syscall.SysProcAttr{Credential: asUser}, dir
			out, _ := next.CombinedOutput()
			if code := next.ProcessState.ExitCode(); code != exitConflict {
				t.Errorf("beside a command that runs as root the next one ended with code %d:\n%s", code, out)
			}
			if !strings.Contains(string(out), "still held") {
				t.Errorf("%s", out)
			}
			if err := syscall.Kill(ids[1], syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			if name == "direct" {
				holder.finish(exitSignal + int(syscall.SIGKILL))
			} else {
				holder.finish(exitSignal + int(syscall.SIGTERM))
			}
			said := strings.Replace(holder.said(), slowEnd, "", 1) // on a busy machine, killed processes end late
			if strings.Count(said, "\n") != 1 {
				t.Errorf("it said %q", holder.said())
			}
		})
	}
}

const nobody = 65534

// playSudo returns a folder with anylock, and a command that prints 0 and its process id as root, and does not end.
func playSudo(t *testing.T) (dir, command string) {
	t.Helper()
	if os.Geteuid() != 0 {
		servers.Missing(t, "only root can make a program that runs as root")
	}
	dir = openTemp(t)
	copyProgram(t, os.Args[0], filepath.Join(dir, "anylock"), 0o755)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		servers.Missing(t, "no setpriv(1) to play sudo")
	}
	copyProgram(t, setpriv, filepath.Join(dir, "sudo"), 0o755|os.ModeSetuid)
	script := filepath.Join(dir, "root.sh")
	if err := os.WriteFile(script, []byte("id -u; echo $$; exec sleep 600"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "sudo") + " --reuid 0 --clear-groups sh " + script
}

func folderOfNobody(t *testing.T, path string) string {
	t.Helper()
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return path
}

const slowEnd = "anylock: k: some processes of the command have been killed but have not ended yet\n"

// openTemp returns a new folder that every user can reach and in which the setuid bit works.
func openTemp(t *testing.T) string {
	t.Helper()
	for _, parent := range []string{os.TempDir(), "/var/tmp", "/usr/local/lib"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(parent, &fs); err != nil || fs.Flags&unix.ST_NOSUID != 0 {
			continue
		}
		if info, err := os.Stat(parent); err != nil || info.Mode().Perm()&0o005 != 0o005 {
			continue
		}
		dir, err := os.MkdirTemp(parent, "anylock-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	servers.Missing(t, "no folder for temporary files that is mounted without nosuid")
	return ""
}

func copyProgram(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	syscall.ForkLock.RLock() // a child forked now would inherit the file open for writing: exec of the copy would fail
	defer syscall.ForkLock.RUnlock()
	out := create(t, to)
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, mode); err != nil {
		t.Fatal(err)
	}
}
