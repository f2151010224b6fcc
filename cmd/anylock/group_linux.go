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
	members, known := membersOf(group)
	return !known || len(members) > 0
}

// groupIsForeign reports whether the group has processes that we may not signal. A signal to the group fails with EPERM
// only if we may signal no member at all, so each member is checked too.
func groupIsForeign(group int) bool {
	members, _ := membersOf(group)
	return slices.ContainsFunc(append(members, -group),
		func(id int) bool { return errors.Is(unix.Kill(id, 0), unix.EPERM) })
}

// membersOf lists the processes of the group that have not ended yet. known is false without /proc.
func membersOf(group int) (members []int, known bool) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return nil, false
	}
	want := strconv.Itoa(group)
	for _, file := range files {
		fields := statFields(file)
		const state, pgrp = 0, 2
		if len(fields) > pgrp && fields[pgrp] == want && fields[state] != "Z" && fields[state] != "X" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			members = append(members, pid)
		}
	}
	return members, true
}
