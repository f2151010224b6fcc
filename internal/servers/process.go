package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// A process is a node that runs a program on this machine.
type process struct {
	path string
	args []string
	dir  string
	user *identity // the user of the process; nil for the test's own user

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

func newProcess(path, dir string, args ...string) *process {
	return &process{path: path, args: args, dir: dir}
}

func (p *process) start() error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	dieWithParent(cmd)
	p.user.apply(cmd)
	started, done := make(chan error), make(chan struct{})
	go func() {
		// Linux sends the parent-death signal when the thread that started the child ends, so keep that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.cmd, p.done = cmd, done
	return nil
}

func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Kill(); err != nil && !p.hasEnded() {
		return err
	}
	<-p.done
	return nil
}

// hasEnded waits until the end of the process is noticed: the kernel has reaped the process, but Wait has not returned
// yet.
func (p *process) hasEnded() bool {
	<-p.done
	return true
}

func (p *process) exited() <-chan struct{} { return p.done }

func (p *process) pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

const logName = "server.log"

func (p *process) logFile() string { return filepath.Join(p.dir, logName) }

func (p *process) log() string {
	b, err := os.ReadFile(p.logFile())
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(b)
}

func (p *process) remove() error { return nil } // the folder belongs to the test

// find returns the first of names that is a program: first in PATH, then in places, where packages install servers
// outside PATH.
func find(names []string, places ...string) (path string, ok bool) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	for _, place := range places {
		for _, name := range names {
			matches, _ := filepath.Glob(filepath.Join(place, name)) // fails only if the pattern is malformed
			if len(matches) > 0 {
				return matches[len(matches)-1], true // the highest version sorts last
			}
		}
	}
	return "", false
}
