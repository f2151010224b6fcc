//go:build unix

package main

import (
	"os"
	"sync"
)

// children is the set of processes that this process has started and reaps itself. Any other child is an orphan: see
// reapOrphans.
type children struct {
	mu   sync.Mutex
	pids map[int]bool
}

var ownChildren = children{pids: make(map[int]bool)}

// start calls f, which starts a process, and adds the process. Meanwhile reapOthers has to wait, so it never mistakes
// the process for an orphan.
func (c *children) start(f func() (*os.Process, error)) (*os.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := f()
	if err == nil {
		c.pids[p.Pid] = true
	}
	return p, err
}

// remove removes a process that has been reaped.
func (c *children) remove(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pids, pid)
}
