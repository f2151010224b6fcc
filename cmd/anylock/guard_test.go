//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// guardOf waits until anylock has started its guard, and returns the guard's process id.
func guardOf(t *testing.T, anylock int) int {
	t.Helper()
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			line, _ := os.ReadFile(file)
			if !strings.HasSuffix(string(line), "\x00guard\x00") {
				continue
			}
			stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
			if strings.Contains(string(stat), fmt.Sprintf(") S %d ", anylock)) {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
	}
	t.Fatalf("anylock %d has no guard", anylock)
	return 0
}

func signalTo(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func init() { programsInPath["anylock-image"] = mainImage }

// mainImage is the program, with the file $GUARD as the image of its guard.
func mainImage() {
	guardImage = os.Getenv("GUARD")
	main()
}

// The guard ends with the command, and does not kill processes that the command left in the background.
func TestGuardEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holder := startJob(t, fileURL(dir), "k",
		`sleep 600 & echo $!; echo $$; while test ! -e '`+dir+`/go'; do sleep 0.05; done`)
	pids := holder.pids(2)
	left, group := pids[0], pids[1]
	guard := guardOf(t, holder.cmd.Process.Pid)
	create(t, filepath.Join(dir, "go")).Close()
	holder.finish(0)
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); groupRuns(guard); time.Sleep(poll) { // the guard leads its own group
		if time.Now().After(end) {
			t.Fatal("the guard is still there")
		}
	}
	if !groupRuns(group) {
		t.Error("what was left in the background was ended")
	}
	signalTo(t, left, syscall.SIGKILL)
}

// If the guard is killed too, the kernel still kills the command when anylock is killed.
func TestKilledWithGuard(t *testing.T) {
	t.Parallel()
	holder := startJob(t, fileURL(t.TempDir()), "k", "echo $$; exec sleep 600", "--ttl", "20")
	group := holder.pids(1)[0]
	signalTo(t, guardOf(t, holder.cmd.Process.Pid), syscall.SIGKILL)
	holder.signal(syscall.SIGKILL)
	awaitEnd(t, group)
}

// awaitGuardAfter waits until anylock has a guard other than old.
func awaitGuardAfter(t *testing.T, anylock, old int) (guard int) {
	t.Helper()
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(poll) {
		if guard = guardOf(t, anylock); guard != old {
			return guard
		}
	}
	t.Fatalf("nobody has replaced the guard %d", old)
	return 0
}

// A guard that is killed or stopped is replaced, and the new guard kills the command's group if anylock is killed.
func TestGuardIsReplaced(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holder := startJob(t, fileURL(t.TempDir()), "k", stubborn, "--ttl", "20")
			group := holder.pids(2)[0]
			guard := guardOf(t, holder.cmd.Process.Pid)
			signalTo(t, guard, sig)
			holder.says("the guard process " + strconv.Itoa(guard) + " was killed or stopped")
			awaitGuardAfter(t, holder.cmd.Process.Pid, guard)
			holder.signal(syscall.SIGKILL)
			awaitEnd(t, group)
		})
	}
}

// A guard that is killed while anylock waits for the lock is replaced too.
func TestGuardIsReplacedWhileWaiting(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	holder := startJob(t, url, "k", "echo $$; exec sleep 600", "--ttl", "20")
	first := holder.pids(1)[0]
	waiter := startJob(t, url, "k", stubborn, "--ttl", "20", "--verbose")
	guard := guardOf(t, waiter.cmd.Process.Pid)
	signalTo(t, guard, syscall.SIGKILL)
	awaitGuardAfter(t, waiter.cmd.Process.Pid, guard)
	signalTo(t, first, syscall.SIGKILL)
	holder.finish(exitSignal + int(syscall.SIGKILL))
	group := waiter.pids(2)[0]
	waiter.says("the command runs") // the guard knows the group
	waiter.signal(syscall.SIGKILL)
	awaitEnd(t, group)
}

// If the program file is deleted or replaced while anylock waits, every later guard still runs the same program.
func TestGuardOfReplacedProgram(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, file string){
		"deleted": func(t *testing.T, file string) {},
		"replaced": func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, program := fileURL(t.TempDir()), filepath.Join(t.TempDir(), "anylock")
			copyProgram(t, os.Args[0], program, 0o755)
			holder := startJob(t, url, "k", "echo $$; exec sleep 600", "--ttl", "20")
			first := holder.pids(1)[0]
			waiter := newJob(t, url, "k", stubborn, "--ttl", "20")
			waiter.cmd.Path = program
			waiter.start()
			guard := guardOf(t, waiter.cmd.Process.Pid) // before the lock is granted
			if err := os.Remove(program); err != nil {
				t.Fatal(err)
			}
			replace(t, program)
			signalTo(t, first, syscall.SIGKILL)
			holder.finish(exitSignal + int(syscall.SIGKILL))
			group := waiter.pids(2)[0]
			signalTo(t, guard, syscall.SIGKILL)
			awaitGuardAfter(t, waiter.cmd.Process.Pid, guard)
			waiter.signal(syscall.SIGKILL)
			awaitEnd(t, group)
		})
	}
}

// The guard survives killall and pkill, because neither its name nor its command line contains "anylock". killall
// compares the whole name, and pkill searches for a pattern in it.
func TestGuardHasItsOwnName(t *testing.T) {
	t.Parallel()
	holder := startJob(t, fileURL(t.TempDir()), "k", "echo $$; exec sleep 600")
	holder.pids(1)
	guard := strconv.Itoa(guardOf(t, holder.cmd.Process.Pid))
	const poll = 5 * time.Millisecond
	var name string
	for end := time.Now().Add(patience); name != "lock-guard" && time.Now().Before(end); time.Sleep(poll) {
		text, err := os.ReadFile(filepath.Join("/proc", guard, "comm"))
		if err != nil {
			t.Fatal(err)
		}
		if name = strings.TrimSpace(string(text)); strings.Contains(name, "anylock") {
			break
		}
	}
	if name != "lock-guard" {
		t.Errorf("the guard's process is called %q", name)
	}
	line, err := os.ReadFile(filepath.Join("/proc", guard, "cmdline"))
	if err != nil || strings.Contains(string(line), "anylock") {
		t.Errorf("the guard's command line is %q, error %v", line, err)
	}
	holder.signal(syscall.SIGTERM)
	holder.finish(exitSignal + int(syscall.SIGTERM))
}

// Without a guard the command does not run, unless the user allows that.
func TestNoGuard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, test := range []struct {
		flags []string
		code  int
		says  string
	}{
		{nil, exitSystem, "anylock: no guard process, which kills the command if anylock is killed or stopped: " +
			"no such file or directory (--no-guard runs without one)\n"},
		{[]string{"--no-guard"}, exitOK, ""},
	} {
		ran := filepath.Join(t.TempDir(), "ran")
		j := newJobOf(t, "anylock-image", fileURL(dir), "k", "touch "+ran, test.flags...)
		j.cmd.Env = append(os.Environ(), "GUARD="+filepath.Join(dir, "none"))
		j.start()
		j.finish(test.code)
		if said := j.said(); said != test.says {
			t.Errorf("anylock said %q, want %q", said, test.says)
		}
		if _, err := os.Stat(ran); (err == nil) != (test.code == exitOK) {
			t.Errorf("%v: stat of what the command makes: %v", test.flags, err)
		}
	}
}

// If the guard has ended and cannot be restarted, anylock stops its command. A waiting anylock does not start its
// command.
func TestGuardCannotBeReplaced(t *testing.T) {
	t.Parallel()
	url, image := fileURL(t.TempDir()), filepath.Join(t.TempDir(), "image")
	if err := os.Symlink(os.Args[0], image); err != nil {
		t.Fatal(err)
	}
	start := func(script string) *job {
		j := newJobOf(t, "anylock-image", url, "k", script, "--ttl", "20", "--grace", "0.2")
		j.cmd.Env = append(os.Environ(), "GUARD="+image)
		j.start()
		return j
	}
	holder := start(stubborn)
	group := holder.pids(2)[0]
	waiter := start("echo ran")
	guards := []int{guardOf(t, holder.cmd.Process.Pid), guardOf(t, waiter.cmd.Process.Pid)}
	if err := os.Remove(image); err != nil {
		t.Fatal(err)
	}
	signalTo(t, guards[1], syscall.SIGKILL)
	waiter.says("cannot be started again")
	waiter.finish(exitSystem)
	signalTo(t, guards[0], syscall.SIGKILL)
	awaitEnd(t, group)
	holder.finish(exitLost)
	if said := holder.said(); !strings.Contains(said,
		"cannot be started again: no such file or directory; stopping the command") {
		t.Errorf("anylock said %q", said)
	}
}
