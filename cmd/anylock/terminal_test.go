//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anylock/lock/internal/servers"
)

// A console is an interactive shell at a terminal. The test types the keys.
type console struct {
	t    *testing.T
	keys *os.File // the test's end of the terminal

	mu     sync.Mutex
	screen strings.Builder
	seen   int // the length of the output that await has consumed
}

const prompt = "your turn> "

// newConsole starts bash, which has job control, with additional environment variables.
func newConsole(t *testing.T, env ...string) *console {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		servers.Missing(t, "no bash, whose job control is needed")
	}
	keys, tty := openPTY(t)
	c := &console{t: t, keys: keys}
	cmd := exec.Command(bash, "--norc", "--noprofile", "-i")
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, "PS1="+prompt, "TERM=dumb", "HISTFILE=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	var reading sync.WaitGroup
	reading.Go(c.read)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		keys.Close() // hangs up on the remaining processes
		reading.Wait()
	})
	return c
}

func openPTY(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		servers.Missing(t, "no pseudo-terminal: %v", err)
	}
	keys = os.NewFile(uintptr(fd), "/dev/ptmx") // non-blocking, so that Close ends a Read
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

func (c *console) read() {
	buf := make([]byte, 4096)
	for {
		n, err := c.keys.Read(buf)
		c.mu.Lock()
		c.screen.Write(buf[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *console) enter(keys string) {
	c.t.Helper()
	if _, err := c.keys.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// await waits until the screen shows text, after the match of the previous await.
func (c *console) await(text string) {
	c.t.Helper()
	c.awaitMatch(regexp.QuoteMeta(text))
}

// awaitMatch waits for a match of pattern. On a busy machine, a line that shows seconds may skip some of them.
func (c *console) awaitMatch(pattern string) {
	c.t.Helper()
	const poll = 5 * time.Millisecond
	text := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); ; time.Sleep(poll) {
		c.mu.Lock()
		screen := c.screen.String()
		c.mu.Unlock()
		if found := text.FindStringIndex(screen[c.seen:]); found != nil {
			c.seen += found[1]
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("no %q in %q", pattern, screen[c.seen:])
		}
	}
}

// Ctrl-C reaches the command, both alone in the foreground and in a pipe.
func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	for name, pipe := range map[string]string{"terminal": "", "pipe": " | cat"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t, "ANYLOCK_URL="+fileURL(t.TempDir()))
			c.await(prompt)
			c.enter("anylock run k -- sh -c 'trap \"echo caught >&2; exit 9\" INT; echo rea\"\"dy >&2; cat'" + pipe + "\n")
			c.await("ready")
			c.enter("ping\n")
			c.await("ping")
			c.await("ping") // printed by cat, so cat runs
			c.enter("\x03")
			c.await("caught")
			c.await(prompt)
			c.enter("echo code=${PIPESTATUS[0]}\n")
			c.await("code=9")
			// The shell reads from the terminal again.
			c.enter("read line; echo go\"\"t $line\n")
			c.enter("more\n")
			c.await("got more")
		})
	}
}

// Ctrl-C also ends the script or loop around anylock, as it would without anylock: while the command runs, before it
// runs, and after it has ended.
func TestTerminalInterruptEndsScript(t *testing.T) {
	t.Parallel()
	const sleeps = `sh -c 'echo rea""dy; exec sleep 600'`
	for _, test := range []struct{ name, command, ready string }{
		{"command", "anylock run k -- " + sleeps, "ready"},
		{"pipe", "anylock run k -- " + sleeps + " | cat", "ready"},
		{"nested", "anylock run k -- anylock run inner -- " + sleeps, "ready"},
		{"wait", "anylock run held -- true", "waiting for held, held by"},
		{"min-hold", "anylock run -v --min-hold 10m k -- true", "the key stays taken"},
	} {
		for _, shell := range []string{"bash script", "sh script", ". ./script"} {
			t.Run(test.name+" "+shell, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				script := "for i in 1 2; do " + test.command + "; done; echo went on\n"
				if err := os.WriteFile(filepath.Join(dir, "script"), []byte(script), 0o600); err != nil {
					t.Fatal(err)
				}
				c := newConsole(t, "ANYLOCK_URL="+fileURL(t.TempDir()))
				c.enter("cd " + dir + "; anylock run held -- sh -c 'echo is\"\" held; exec sleep 600' &\n")
				c.await("is held")
				c.enter(shell + "; echo went on\n")
				c.await(test.ready)
				c.enter("\x03")
				c.await(prompt)
				c.enter("echo co\"\"de=$?\n")
				c.await("code=130")
				c.mu.Lock()
				defer c.mu.Unlock()
				if screen := c.screen.String(); strings.Contains(screen, "\nwent on") {
					t.Errorf("the script continued: %q", screen)
				}
			})
		}
	}
}

// Ctrl-Z returns the terminal to the shell, and fg returns it to the command.
func TestTerminalStop(t *testing.T) {
	t.Parallel()
	for name, pipe := range map[string]string{"terminal": "", "pipe": " | cat"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t, "ANYLOCK_URL="+fileURL(t.TempDir()))
			c.enter("anylock run k -- sh -c 'echo rea\"\"dy; read a; echo go\"\"t $a'" + pipe + "\n")
			c.await("ready")
			c.enter("\x1a")
			c.await("Stopped")
			c.enter("echo she\"\"ll\n")
			c.await("shell")
			c.enter("fg\n")
			c.await("anylock run") // bash prints the resumed command line
			c.enter("more\n")
			c.await("got more")
			c.await(prompt)
			c.enter("echo code=$?\n")
			c.await("code=0")
		})
	}
}

// A job that was stopped for longer than its TTL does not resume.
func TestTerminalStopTooLong(t *testing.T) {
	t.Parallel()
	url := fileURL(t.TempDir())
	c := newConsole(t, "ANYLOCK_URL="+url)
	c.enter("anylock run --ttl 5 k -- sh -c 'echo rea\"\"dy; read a; echo go\"\"t $a'\n")
	c.await("ready")
	c.enter("\x1a")
	c.await("Stopped")
	c.enter("anylock run k -- echo ne\"\"xt\n")
	c.await("next")
	c.enter("fg\n")
	c.await("the lock is lost")
	c.await(prompt)
	c.enter("echo code=$?\n")
	c.await("code=113")
	c.mu.Lock()
	defer c.mu.Unlock()
	if screen := c.screen.String(); strings.Contains(screen, "guard process") { // it did its work
		t.Errorf("the guard process is reported as killed: %q", screen)
	}
}

// A command in the background cannot read from the terminal. After fg it can.
func TestTerminalBackground(t *testing.T) {
	t.Parallel()
	c := newConsole(t, "ANYLOCK_URL="+fileURL(t.TempDir()))
	c.enter("anylock run k -- sh -c 'echo rea\"\"dy; read a; echo go\"\"t $a' &\n")
	c.await("ready")
	stopped := false
	for range 100 { // bash reports a stopped job before its next prompt
		c.enter("jobs\n")
		c.await("anylock run")
		c.mu.Lock()
		stopped = strings.Contains(c.screen.String(), "Stopped")
		c.mu.Unlock()
		if stopped {
			break
		}
	}
	if !stopped {
		t.Error("the shell does not report that the command has stopped")
	}
	c.enter("fg\n")
	c.await("anylock run")
	c.enter("more\n")
	c.await("got more")
	c.await(prompt)
}

// A command whose input and output are the terminal starts in the foreground of the terminal, because some commands
// check this before they read. After the command, the shell script around it can read from the terminal.
func TestTerminalForeground(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"outer.sh": `anylock run k -- sh inner.sh; read a; echo "got $a"`,
		"inner.sh": `until set -- $(cut -d ' ' -f 5,8 /proc/$$/stat) && test "$1" = "$2"; do :; done; echo foreground`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := newConsole(t, "ANYLOCK_URL="+fileURL(t.TempDir()))
	c.enter("cd " + dir + "; sh outer.sh\n")
	c.await("foreground")
	c.enter("more\n")
	c.await("got more")
}

// A user who waits at a terminal sees who holds the key.
func TestTerminalWaiting(t *testing.T) {
	t.Parallel()
	c := newConsole(t, "ANYLOCK_URL="+fileURL(t.TempDir()))
	c.enter("anylock run k -- sh -c 'echo rea\"\"dy; exec sleep 600' &\n")
	c.await("ready")
	c.enter("anylock run k -- true\n")
	c.await("anylock: waiting for k, held by ")
	c.enter("\x03")
	c.enter("anylock run -q -w 3 k -- true; echo co\"\"de $?\n")
	c.await("code 1")
	c.mu.Lock()
	if screen := c.screen.String(); strings.Count(screen, "waiting for k") > 1 {
		t.Errorf("-q does not silence %q", screen)
	}
	c.mu.Unlock()
	c.enter("kill %1; wait; echo do\"\"ne\n")
	c.await("done")
}

// On a terminal the suite shows its progress. After Ctrl-C it reports the results so far.
func TestTerminalConform(t *testing.T) {
	t.Parallel()
	c := newConsole(t, "ANYLOCK_URL=memory:")
	c.await(prompt)
	c.enter("TERM=vt100 anylock conform --run 'Ahead|Stale' --timeout 1m; echo co\"\"de $?\n")
	c.awaitMatch(` checks, \d+ s`)
	c.await("\rrule ") // the progress line is erased
	c.await(" passed, 0 failed, ")
	c.await("code 0")

	c.enter("TERM=vt100 anylock conform; echo co\"\"de $?\n")
	c.awaitMatch(` checks, \d+ s: `)
	c.awaitMatch(` checks, [1-9]\d* s: `)
	c.enter("\x03")
	c.await(" passed, 0 failed, ")
	c.await("interrupted: ")
	c.await("code 130")

	// Without a terminal, no part of the progress line is written.
	c.enter("anylock conform --run Stale 2>&1 | grep -c 'checks, '; echo co\"\"de $?\n")
	c.await("code 1")
}

// On a terminal the benchmarks show their progress. After Ctrl-C they report the measurements so far.
func TestTerminalBench(t *testing.T) {
	t.Parallel()
	c := newConsole(t, "ANYLOCK_URL=memory:")
	c.await(prompt)
	c.enter("TERM=vt100 anylock bench --rounds 500 --duration 50ms --scenario serial --scenario try --backend memory:; " +
		"echo co\"\"de $?\n")
	c.awaitMatch(`round \d+ of 500, `)
	c.await(" s left: ")
	c.enter("\x03")
	c.await("serial: One worker")
	c.await("interrupted: what was measured until then")
	c.await("code 130")
}
