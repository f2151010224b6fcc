package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// groupRuns reports whether any process of the group has not ended yet. A process that waits to be reaped has ended.
func groupRuns(group int) bool {
	running, ended, known := membersOf(group)
	if !known || len(running) > 0 {
		return true
	}
	// With hidepid, /proc hides the processes of other users. A signal to them fails with EPERM all the same.
	return !ended && errors.Is(unix.Kill(-group, 0), unix.EPERM)
}

// groupIsForeign reports whether the group has processes that we may not signal. A signal to the group fails with EPERM
// only if we may signal no member at all, so each member is checked too.
func groupIsForeign(group int) bool {
	running, _, _ := membersOf(group)
	return slices.ContainsFunc(append(running, -group),
		func(id int) bool { return errors.Is(unix.Kill(id, 0), unix.EPERM) })
}

// membersOf lists the processes of the group that have not ended yet. ended means that others wait to be reaped. known
// is false without /proc.
func membersOf(group int) (running []int, ended, known bool) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return nil, false, false
	}
	want := strconv.Itoa(group)
	for _, file := range files {
		fields := statFields(file)
		const state, pgrp = 0, 2
		switch {
		case len(fields) <= pgrp || fields[pgrp] != want:
		case fields[state] == "Z" || fields[state] == "X":
			ended = true
		default:
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			running = append(running, pid)
		}
	}
	return running, ended, true
}
