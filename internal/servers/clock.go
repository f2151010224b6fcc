package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/internal/skew"
)

// StepClock returns a function that steps the wall clock of the running server by a number of whole seconds. No other
// process is affected. A restarted server has the right time. StepClock returns nil where clocks cannot be stepped,
// which is everywhere except on linux/amd64.
func (s *Server) StepClock() func(d time.Duration) {
	if !skew.Possible() {
		return nil
	}
	return func(d time.Duration) {
		s.t.Helper()
		s.skew += d
		s.check("step the clock of", s.setClock())
	}
}

// setClock stops all processes of the server, including those that have just started, and sets their clocks together.
func (s *Server) setClock() (err error) {
	var stopped []int
	defer func() { err = errors.Join(err, signalPids(stopped, sigCont)) }()
	for {
		pids, err := s.processes()
		if err != nil {
			return err
		}
		born := slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(stopped, pid) })
		if len(born) == 0 {
			return nil
		}
		for _, pid := range born {
			stopped = append(stopped, pid)
			if err := s.setClockOf(pid); err != nil {
				return fmt.Errorf("process %d: %w", pid, err)
			}
		}
	}
}

// setClockOf sets the clock of one process, and leaves the process stopped.
func (s *Server) setClockOf(pid int) error {
	const most, pause, tries = 10 * time.Second, 200 * time.Microsecond, 50
	var err error
	for end := time.Now().Add(most); time.Now().Before(end); {
		if err := signalPids([]int{pid}, sigStop); err != nil {
			return err
		}
		for range tries {
			if err = skew.Set(pid, s.skew); !errors.Is(err, skew.ErrRuns) {
				if errors.Is(err, os.ErrNotExist) {
					err = nil // the process has ended
				}
				return err
			}
			time.Sleep(pause)
		}
		if err := signalPids([]int{pid}, sigCont); err != nil { // the process was stopped while it read the clock
			return err
		}
	}
	return err
}

// processes returns the processes whose working directory is in the server's folder.
func (s *Server) processes() (pids []int, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return nil, err
	}
	for _, cwd := range dirs {
		if dir, err := os.Readlink(cwd); err != nil || dir != s.Dir && !strings.HasPrefix(dir, s.Dir+"/") {
			continue // another's process, or one that has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(cwd)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	if !slices.Contains(pids, s.node.pid()) {
		return nil, fmt.Errorf("process %d does not work in %s", s.node.pid(), s.Dir)
	}
	return pids, nil
}
