//go:build unix

package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// patience is how long to wait for an event that is immediate unless the machine is busy.
const patience = 30 * time.Second

// TestUsage runs the scripts that need no store.
func TestUsage(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/usage", "")
}

// The following tests run the same scripts or checks on each store that processes can share.
func TestFile(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	runScripts(t, "testdata/store", url)
	runScripts(t, "testdata/telling", url)
}

func TestRedis(t *testing.T) {
	t.Parallel()
	url := servers.RedisURL(t)
	runScripts(t, "testdata/store", url)
	runScripts(t, "testdata/telling", url)
	conforms(t, url)
}

func TestRedlock(t *testing.T) {
	storetest.Long(t, "three servers")
	t.Parallel()
	conforms(t, startRedlock(t))
}

func TestEtcd(t *testing.T)      { onServer(t, servers.EtcdURL) }
func TestZooKeeper(t *testing.T) { onServer(t, servers.ZooKeeperURL) }
func TestPostgres(t *testing.T)  { onServer(t, servers.PostgresURL) }
func TestMemcached(t *testing.T) { onServer(t, servers.MemcachedURL) }

func onServer(t *testing.T, start func(testing.TB) string) {
	storetest.Long(t, "the scripts on one more store")
	t.Parallel()
	url := start(t)
	runScripts(t, "testdata/store", url)
	conforms(t, url)
}

// runScripts runs the scripts of a folder in parallel, each with its own $KEY.
func runScripts(t *testing.T, dir, url string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv(raceVariable, raceOptions)
			if url != "" {
				e.Setenv("ANYLOCK_URL", url)
			}
			e.Setenv("KEY", "test-"+rand.Text())
			e.Setenv("BAD", "a\u009b2J\u2028\u202e\x1b\x7fé😀")
			e.Values[programsKey{}] = &programs{running: make(map[string]*running)}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "start": start, "send": send, "finish": finish, "waitfile": waitFile,
			"stopped": stopped,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// exits CODE CMD [ARG...] runs a program and checks its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE CMD [ARG...]")
	}
	checkExit(ts, args[1], ts.Exec(args[1], args[2:]...), args[0])
}

func checkExit(ts *testscript.TestScript, name string, err error, want string) {
	got := "0"
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = strconv.Itoa(exit.ExitCode())
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			got = "signal " + unix.SignalName(status.Signal())
		}
	} else if err != nil {
		got = err.Error()
	}
	if got != want {
		ts.Fatalf("%s: exit code %s, want %s", name, got, want)
	}
}

type programsKey struct{}

// programs are the programs that one script has started in the background.
type programs struct {
	mu      sync.Mutex
	running map[string]*running
}

type running struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // the result of Wait; valid once done is closed
}

func (p *programs) get(ts *testscript.TestScript, name string) *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running[name]
	if r == nil {
		ts.Fatalf("no program %s was started", name)
	}
	return r
}

func programsOf(ts *testscript.TestScript) *programs { return ts.Value(programsKey{}).(*programs) }

// start NAME CMD [ARG...] starts a program in the background, in its own session without a terminal. Its output goes to
// the files NAME.out and NAME.err.
func start(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: start NAME CMD [ARG...]")
	}
	name, argv := args[0], args[1:]
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, v := range []string{"ANYLOCK_URL", "AT", "KEY", "PATH", "HOME", "WORK", raceVariable} {
		if value := ts.Getenv(v); value != "" {
			cmd.Env = append(cmd.Env, v+"="+value)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	ts.Check(cmd.Start())
	r := &running{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = cmd.Wait()
	}()
	p := programsOf(ts)
	p.mu.Lock()
	p.running[name] = r
	p.mu.Unlock()
	ts.Defer(func() {
		select {
		case <-r.done:
		default:
			cmd.Process.Kill()
			<-r.done
		}
	})
}

// send SIGNAL NAME sends a signal to a program in the background.
func send(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: send SIGNAL NAME")
	}
	sig := unix.SignalNum("SIG" + args[0])
	if sig == 0 {
		ts.Fatalf("no signal %s", args[0])
	}
	ts.Check(programsOf(ts).get(ts, args[1]).cmd.Process.Signal(sig))
}

// finish CODE NAME waits until a program in the background ends, and checks its exit code.
func finish(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: finish CODE NAME")
	}
	r := programsOf(ts).get(ts, args[1])
	select {
	case <-r.done:
	case <-time.After(patience):
		ts.Fatalf("%s still runs\n%s", args[1], ts.ReadFile(args[1]+".err"))
	}
	for _, ext := range []string{".out", ".err"} {
		if text := ts.ReadFile(args[1] + ext); text != "" {
			ts.Logf("[%s%s]\n%s", args[1], ext, text)
		}
	}
	checkExit(ts, args[1], r.err, args[0])
}

// waitfile FILE [LINES] waits until a file has that many lines; the default is one.
func waitFile(ts *testscript.TestScript, _ bool, args []string) {
	lines := 1
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		lines = n
	} else if len(args) != 1 {
		ts.Fatalf("usage: waitfile FILE [LINES]")
	}
	if err := awaitLines(ts.MkAbs(args[0]), lines); err != nil {
		ts.Fatalf("%v", err)
	}
}

func awaitLines(file string, lines int) error {
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(poll) {
		text, _ := os.ReadFile(file)
		if strings.Count(string(text), "\n") >= lines {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s has %q, want %d lines", filepath.Base(file), text, lines)
		}
	}
}

// stopped FILE waits until the process whose id is in a file is stopped.
func stopped(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: stopped FILE")
	}
	pid := strings.TrimSpace(ts.ReadFile(args[0]))
	const poll = 5 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(poll) {
		state, err := stateOf(pid)
		ts.Check(err)
		if strings.HasPrefix(state, "T") {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("process %s is in state %s", pid, state)
		}
	}
}

// stateOf returns the state of a process in the notation of ps; T means stopped. A minimal Linux has no ps.
func stateOf(pid string) (string, error) {
	if runtime.GOOS != "linux" {
		out, err := exec.Command("ps", "-o", "state=", "-p", pid).Output()
		return string(out), err
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return state, err
}
