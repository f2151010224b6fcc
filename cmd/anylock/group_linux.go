package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// groupRuns tells whether any process of the group has not ended yet, reaped or not.
func groupRuns(group int) bool {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return true // no /proc: not known
	}
	want := strconv.Itoa(group)
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has gone meanwhile
		}
		// proc_pid_stat(5): pid (comm) state ppid pgrp …, and comm may hold anything.
		_, rest, _ := strings.Cut(string(stat[max(0, strings.LastIndexByte(string(stat), ')')):]), " ")
		fields := strings.Fields(rest)
		const state, pgrp = 0, 2
		if len(fields) > pgrp && fields[pgrp] == want && fields[state] != "Z" && fields[state] != "X" {
			return true
		}
	}
	return false
}
