//go:build linux

package file_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/file"
)

// Child processes run this test binary; an environment variable selects their role.
const (
	roleVariable = "ANYLOCK_TEST_ROLE"
	dirVariable  = "ANYLOCK_TEST_DIR"
	stopVariable = "ANYLOCK_TEST_STOP" // "point SIGNAL": the child sends itself the signal at the point, once: see armStop
	diskVariable = "ANYLOCK_TEST_DISK" // the child mounts a disk of this size on the directory; no other process sees it
	bootVariable = "ANYLOCK_TEST_BOOT" // the child mounts this file over its boot id, like a container of LXC
)

func runRole(role string) int {
	if at := os.Getenv(stopVariable); at != "" {
		armStop(at)
	}
	if size := os.Getenv(diskVariable); size != "" {
		if err := unix.Mount("none", os.Getenv(dirVariable), "tmpfs", 0, "size="+size); err != nil {
			fmt.Println("error mount", err)
			return 1
		}
	}
	if id := os.Getenv(bootVariable); id != "" {
		if err := unix.Mount(id, "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, ""); err != nil {
			fmt.Println("error mount", err)
			return 1
		}
	}
	if role == "opener" {
		return opener(os.Getenv(dirVariable))
	}
	b, err := file.Open(context.Background(), os.Getenv(dirVariable))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	switch role {
	case "shell":
		shell(b)
	case "counter":
		counter(b)
	case "storm":
		storm(b)
	case "taker":
		taker(b)
	case "contender":
		contender(b)
	case "full":
		full(b)
	case "starved":
		starved(b)
	case "sparing":
		sparing(b)
	case "idle":
		idle(b)
	}
	b.Close()
	return 0
}

// armStop makes the process stop or kill itself the first time that it reaches a point of the store's code after the
// command "arm".
func armStop(at string) {
	name, signal, _ := strings.Cut(at, " ")
	sig := map[string]syscall.Signal{"STOP": syscall.SIGSTOP, "KILL": syscall.SIGKILL}[signal]
	file.StopAt(func(point string) {
		if armed.Load() && point == name && armed.CompareAndSwap(true, false) {
			// Signal this thread: if another thread received the signal, this one would run on for a while.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
		}
	})
}

// shell executes the commands in its input, one per line, and replies to each with one line.
func shell(b *file.Backend) {
	ctx := context.Background()
	var l backend.Lease
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var (
			verb, key string
			ttl       time.Duration
			err       error
		)
		var ms int
		fmt.Sscan(in.Text(), &verb, &key, &ms)
		ttl = time.Duration(ms) * time.Millisecond
		switch verb {
		case "arm":
			armed.Store(true)
		case "starve":
			_, err = starve()
		case "try", "wait", "shared-try", "shared-wait":
			r := request(key, ttl, strings.HasSuffix(verb, "wait"))
			r.Shared = strings.HasPrefix(verb, "shared")
			var got backend.Lease
			if got, err = b.Acquire(ctx, r); err == nil {
				l = got
			}
		case "renew":
			err = l.Renew(ctx, ttl)
		case "release":
			err = l.Release(ctx)
		case "lost":
			select {
			case <-l.Lost():
			case <-time.After(10 * time.Second):
				err = errors.New("not lost")
			}
		}
		switch {
		case err == nil && l != nil:
			fmt.Println("ok", l.Token())
		case err == nil:
			fmt.Println("ok")
		case errors.Is(err, backend.ErrLost):
			fmt.Println("lost")
		case errors.Is(err, backend.ErrHeld):
			fmt.Println("held")
		default:
			fmt.Println("error", err)
		}
	}
}

// A child is a running child process.
type child struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  chan string // lines of its output; closed at the end
	over chan error
}

func start(t testing.TB, dir, role string, env ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0]), out: make(chan string, 1024), over: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stderr = os.Stderr
	var unshare uintptr
	if slices.ContainsFunc(env, func(e string) bool {
		return strings.HasPrefix(e, diskVariable) || strings.HasPrefix(e, bootVariable)
	}) {
		unshare = syscall.CLONE_NEWNS
	}
	// the kernel kills the child if the test is killed
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: unshare}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.out)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			c.out <- lines.Text()
		}
	}()
	go func() {
		<-read
		c.over <- c.cmd.Wait()
	}()
	t.Cleanup(func() {
		c.signal(syscall.SIGKILL)
		c.end()
	})
	return c
}

func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// end closes the child's input, and waits until the child has ended.
func (c *child) end() {
	c.in.Close()
	for range c.out {
	}
	if err, ok := <-c.over; ok {
		_ = err
		close(c.over)
	}
}

// awaitDeath waits until the child has killed itself: its output ends without another line.
func (c *child) awaitDeath() {
	c.t.Helper()
	select {
	case line, ok := <-c.out:
		if ok {
			c.t.Fatalf("the child lives, and says: %s", line)
		}
	case <-time.After(20 * time.Second):
		c.t.Fatal("the child does not die")
	}
}

func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	c.end()
}

// freeze stops the child and waits until it is stopped.
func (c *child) freeze() {
	c.signal(syscall.SIGSTOP)
	c.awaitStop()
}

func (c *child) thaw() { c.signal(syscall.SIGCONT) }

// awaitStop waits until the child is stopped. It reads the state of the child's main thread.
func (c *child) awaitStop() {
	c.t.Helper()
	eventually(c.t, "child is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		_, rest, _ := strings.Cut(string(stat), ") ")
		return err == nil && strings.HasPrefix(rest, "T")
	})
}

func (c *child) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// answer returns the next line of the child's output.
func (c *child) answer() string {
	c.t.Helper()
	select {
	case line, ok := <-c.out:
		if !ok {
			c.t.Fatal("the child has ended")
		}
		return line
	case <-time.After(time.Minute):
		c.signal(syscall.SIGQUIT) // the child prints the stacks of its goroutines
		c.end()
		c.t.Fatal("no answer from the child")
		return ""
	}
}

func (c *child) do(format string, args ...any) string {
	c.t.Helper()
	c.send(format, args...)
	return c.answer()
}

// ok sends a command that must succeed, and returns the token of the child's lease if it has one.
func (c *child) ok(format string, args ...any) (token uint64) {
	c.t.Helper()
	line := c.do(format, args...)
	if !strings.HasPrefix(line, "ok") {
		c.t.Fatalf("child, ordered to %s: %s", fmt.Sprintf(format, args...), line)
	}
	fmt.Sscanf(line, "ok %d", &token)
	return token
}
