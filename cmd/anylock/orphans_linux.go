package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reapOrphans reaps orphans: processes that others have started and whose parent has died. The kernel makes this
// process their parent if it is process 1 of a container, or a subreaper. Otherwise each ended orphan would keep its
// process ID until this process ends.
func reapOrphans() (stop func()) {
	if os.Getpid() != 1 && !isSubreaper() {
		return func() {}
	}
	ended := make(chan os.Signal, 1) // room for one is enough, because each scan finds all orphans
	signal.Notify(ended, unix.SIGCHLD)
	quit := make(chan struct{})
	go func() {
		for {
			ownChildren.reapOthers()
			select {
			case <-ended:
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(quit)
	}
}

func isSubreaper() bool {
	var is int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0)
	return err == nil && is != 0
}

// reapOthers reaps every ended child that is not in c.
func (c *children) reapOthers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	self := strconv.Itoa(os.Getpid())
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fields := statFields(file)
		if len(fields) > 1 && fields[0] == "Z" && fields[1] == self && !c.pids[pid] {
			unix.Wait4(pid, nil, unix.WNOHANG, nil) //nolint:errcheck // the next scan tries again
		}
	}
}

// statFields returns the fields of a /proc/PID/stat from the state on. It returns none if the process no longer exists.
func statFields(file string) []string {
	stat, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	// proc_pid_stat(5): pid (comm) state ppid pgrp …; comm may contain any character.
	_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), " ")
	return strings.Fields(rest)
}
