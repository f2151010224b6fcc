//go:build probe && linux

package probe_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/internal/probe/journal"
)

// A pack is the set of processes of one probe.
type pack struct {
	t       *testing.T
	ttl     time.Duration
	env     []string
	journal string

	mu       sync.Mutex
	subjects []*subject
}

// A subject is one process at a time: when it is killed, the next one starts.
type subject struct {
	*pack
	url  string
	link *link.Link // nil if the store has no server

	cmd    *exec.Cmd
	in     io.Closer
	grants *grants
}

// grants counts the leases of a process, which writes a byte to its standard output for each.
type grants struct {
	n     atomic.Int64
	fresh chan struct{} // has a value after each report
}

func (g *grants) Write(p []byte) (int, error) {
	g.n.Add(int64(len(p)))
	select {
	case g.fresh <- struct{}{}:
	default:
	}
	return len(p), nil
}

// await returns after n more leases, or at the time until.
func (g *grants) await(n int64, until time.Time) {
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	for end := g.n.Load() + n; g.n.Load() < end; {
		select {
		case <-g.fresh:
		case <-limit.C:
			return
		}
	}
}

// start starts a process for s.
func (s *subject) start() {
	program, err := os.Executable()
	if err != nil {
		s.t.Error(err)
		return
	}
	cmd := exec.Command(program, "-test.run=^$")
	cmd.Env = append(os.Environ(), workerURL+"="+s.url, workerTTL+"="+s.ttl.String(), workerJournal+"="+s.pack.journal)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stderr = os.Stderr
	reports := &grants{fresh: make(chan struct{}, 1)}
	cmd.Stdout = reports
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.subjects = append(s.subjects, s)
	}
	s.cmd, s.in, s.grants = cmd, in, reports
}

// note writes a fault of the process into the journal.
func (s *subject) note(what string) {
	if err := appendLine(s.pack.journal, fmt.Sprintf("! %d %d %s", s.cmd.Process.Pid, now(), what)); err != nil {
		s.t.Error(err)
	}
}

// trouble injects faults into the process until the given time. Before each fault, it waits until the process has had
// some leases: on a busy machine, the process might otherwise be killed before it has acquired anything.
func (s *subject) trouble(until time.Time) {
	for {
		pause := min(between(s.ttl/2, 8*s.ttl), max(time.Until(until), 0))
		time.Sleep(pause) // sleeps: how long the process works without a fault
		s.grants.await(1+rand.Int64N(5), until)
		if !time.Now().Before(until) {
			return
		}
		faults := []func(){s.kill, s.stop, s.drop, s.reset}
		if s.link == nil {
			faults = faults[:2]
		}
		faults[rand.IntN(len(faults))]()
	}
}

// outage returns for how long a process is stopped or cut off: for a shorter or a longer time than its leases last.
func (s *subject) outage() time.Duration { return between(0, 2*s.ttl) }

func (s *subject) kill() {
	s.note(journal.Kill)
	s.signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
	_ = s.in.Close()
	s.start()
}

func (s *subject) stop() {
	s.signal(syscall.SIGSTOP)
	s.note(journal.Stop)
	time.Sleep(s.outage()) // sleeps: how long the process is stopped
	s.note(journal.Cont)
	s.signal(syscall.SIGCONT)
}

func (s *subject) drop() {
	s.note(journal.Drop)
	s.link.Drop(conformance.ToStore)
	s.link.Drop(conformance.FromStore)
	time.Sleep(s.outage()) // sleeps: how long the process is cut off
	s.link.Heal()
	s.note(journal.Heal)
}

func (s *subject) reset() {
	s.note(journal.Reset)
	s.link.Cut()
}

func (s *subject) signal(sig syscall.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("process %d: %v", s.cmd.Process.Pid, err)
	}
}

// stop closes the input of all processes, and waits until they have ended.
func (p *pack) stop() {
	for _, s := range p.subjects {
		_ = s.in.Close()
	}
	for _, s := range p.subjects {
		limit := time.AfterFunc(time.Minute, func() {
			p.t.Errorf("process %d does not end", s.cmd.Process.Pid)
			s.signal(syscall.SIGABRT) // prints the stacks of its goroutines
		})
		if err := s.cmd.Wait(); err != nil {
			p.t.Errorf("process %d: %v", s.cmd.Process.Pid, err)
		}
		limit.Stop()
	}
}

// appendLine appends one line to a file, in one write.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("journal %s: %w", strconv.Quote(path), err)
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}
