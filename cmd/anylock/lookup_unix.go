//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// lookup finds the file that execvp(3) would run for name. Unlike exec.LookPath, it distinguishes a file that may not
// be executed from a missing file.
func lookup(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "." // POSIX
		}
		file := dir + "/" + name // filepath.Join would drop a leading ./, without which this is no path
		_, err := exec.LookPath(file)
		if err == nil {
			return file, nil
		}
		// Stat also fails in a directory that we may not search, such as one in a $PATH that su(1) kept from root. Such a
		// failure does not show that the file exists.
		if _, missing := os.Stat(file); denied == nil && missing == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", errNotInPath
}

var errNotInPath = errors.New("not found in $PATH")

// commandExit returns the exit code for a command that could not be started, as a shell would.
func commandExit(err error) int {
	if errors.Is(err, errNotInPath) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return exitNotFound
	}
	return exitNotExecutable
}
