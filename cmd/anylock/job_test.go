//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A job is one run of a shell script under "anylock run".
type job struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err string // files with the script's output and anylock's messages
	done     chan struct{}
	code     int // valid once done is closed
	group    int // the first process id that the script printed; 0 before pids
}

func startJob(t *testing.T, url, key, script string, flags ...string) *job {
	t.Helper()
	j := newJob(t, url, key, script, flags...)
	j.start()
	return j
}

func newJob(t *testing.T, url, key, script string, flags ...string) *job {
	t.Helper()
	return newJobOf(t, "anylock", url, key, script, flags...)
}

// newJobOf is newJob for a program of programsInPath.
func newJobOf(t *testing.T, program, url, key, script string, flags ...string) *job {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"run", "--backend", url}, flags...)
	j := &job{
		t: t, cmd: exec.Command(program, append(args, key, "--", "sh", "-c", script)...),
		out: filepath.Join(dir, "out"), err: filepath.Join(dir, "err"), done: make(chan struct{}),
	}
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return j
}

func (j *job) start() {
	t := j.t
	t.Helper()
	out, errs := create(t, j.out), create(t, j.err)
	defer out.Close()
	defer errs.Close()
	j.cmd.Stdout, j.cmd.Stderr = out, errs
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(j.done)
		j.cmd.Wait()
		j.code = j.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		j.cmd.Process.Kill()
		<-j.done
		if j.group > 1 && t.Failed() { // otherwise the group has ended, and its number may have been reused
			syscall.Kill(-j.group, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("anylock said:\n%s", j.said())
		}
	})
}

func create(t *testing.T, file string) *os.File {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (j *job) signal(s syscall.Signal) {
	j.t.Helper()
	if err := j.cmd.Process.Signal(s); err != nil {
		j.t.Fatal(err)
	}
}

// pids waits until the script has printed n process ids.
func (j *job) pids(n int) []int {
	j.t.Helper()
	if err := awaitLines(j.out, n); err != nil {
		j.t.Fatalf("%v; anylock said:\n%s", err, j.said())
	}
	text, err := os.ReadFile(j.out)
	if err != nil {
		j.t.Fatal(err)
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			j.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	j.group = pids[0]
	return pids
}

func (j *job) said() string {
	text, _ := os.ReadFile(j.err)
	return string(text)
}

// says waits until anylock has printed text.
func (j *job) says(text string) {
	j.t.Helper()
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); !strings.Contains(j.said(), text); time.Sleep(poll) {
		if time.Now().After(end) {
			j.t.Fatalf("anylock did not say %q but:\n%s", text, j.said())
		}
	}
}

// finish waits for anylock and checks its exit code.
func (j *job) finish(code int) {
	j.t.Helper()
	select {
	case <-j.done:
	case <-time.After(patience):
		j.t.Fatal("still runs")
	}
	if j.code != code {
		j.t.Errorf("exit code %d, want %d", j.code, code)
	}
}

// awaitEnd waits until no process of a group runs, and returns when it last saw one running. The time at which it sees
// the end would be too late on a busy machine, and a group that ended in time would fail the test.
func awaitEnd(t *testing.T, group int) (last time.Time) {
	t.Helper()
	const poll = 5 * time.Millisecond
	last = time.Now()
	for end := last.Add(patience); last.Before(end); time.Sleep(poll) {
		now := time.Now()
		if !groupRuns(group) {
			return last
		}
		last = now
	}
	t.Fatalf("group %d still runs", group)
	return last
}
