package servers

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// An identity is the unprivileged user for a server that refuses to run as root.
type identity struct{ uid, gid int }

// unprivileged returns the first of names that exists here if the test runs as root. Otherwise it returns nil.
func unprivileged(names ...string) *identity {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return &identity{uid, gid}
		}
	}
	return nil
}

// own makes the identity the owner of path.
func (id *identity) own(path string) error {
	if id == nil {
		return nil
	}
	return os.Chown(path, id.uid, id.gid)
}

// A family is a node whose server consists of several processes, possibly of another user. All of them are frozen and
// killed.
type family struct {
	*process
}

// newFamily creates a folder that the server's user can access, unlike the test's own folder, and a node in it.
func newFamily(t testing.TB, s *Server, path string, user *identity, args []string, files map[string]string) *family {
	t.Helper()
	dir, err := os.MkdirTemp(memoryFolder(), "anylock-server-")
	if err == nil {
		err = user.own(dir)
	}
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	s.Dir = dir
	for name, text := range files {
		if err := user.own(writeFile(t, filepath.Join(dir, name), []byte(text))); err != nil {
			t.Fatalf("servers: %v", err)
		}
	}
	p := newProcess(path, dir, args...)
	p.user = user
	return &family{p}
}

// signal stops the parent before its children, so that it starts no more of them. It continues the parent after its
// children.
func (f *family) signal(sig signal) error {
	if sig == sigCont {
		return errors.Join(signalPids(f.children(), sig), f.process.signal(sig))
	}
	err := f.process.signal(sig)
	return errors.Join(err, signalPids(f.children(), sig))
}

func (f *family) kill() error {
	if f.cmd == nil {
		return nil
	}
	select {
	case <-f.done:
		return nil
	default:
	}
	_ = f.process.signal(sigStop)
	children := f.children()
	// Stop all processes before killing one. Otherwise the survivors would serve for a moment, and grant what the killed
	// processes held.
	_ = signalPids(children, sigStop)
	_ = signalPids(children, sigKill)
	err := f.process.kill()
	const patience = 30 * time.Second // a process that writes to a slow disk ends only after the write
	for end := time.Now().Add(patience); err == nil; time.Sleep(time.Millisecond) {
		if !anyAlive(children) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("a child of process %d is still alive", f.pid())
		}
	}
	return err
}

func (f *family) remove() error { return os.RemoveAll(f.dir) }

// children lists the processes whose parent is the server.
func (f *family) children() (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // fails only if the pattern is malformed
	for _, path := range stats {
		if pid, parent, state := procStat(path); parent == f.pid() && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func anyAlive(pids []int) bool {
	for _, pid := range pids {
		if got, _, state := procStat(fmt.Sprintf("/proc/%d/stat", pid)); got != 0 && state != "Z" {
			return true
		}
	}
	return false
}

// procStat reads the number, parent and state of a process. It returns zeros if the process has ended.
func procStat(path string) (pid, parent int, state string) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, ""
	}
	text := string(b)
	number, _, _ := strings.Cut(text, " ")
	// The name is in parentheses and may contain any character.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const least = 2
	if len(fields) < least {
		return 0, 0, ""
	}
	pid, _ = strconv.Atoi(number)
	parent, _ = strconv.Atoi(fields[1])
	return pid, parent, fields[0]
}
