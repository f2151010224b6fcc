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

// lookup finds the file that execvp(3) would run for name. exec.LookPath alone would not tell a file that may not
// be executed from one that is not there.
func lookup(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "." // POSIX
		}
		file := dir + "/" + name // filepath.Join would drop the ./ that makes it a path
		_, err := exec.LookPath(file)
		if err == nil {
			return file, nil
		}
		// A folder that we may not look into, as in a $PATH that su(1) has left from root, does not show that it is
		// there.
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

// commandExit is the exit code for a command that could not be started, as in a shell.
func commandExit(err error) int {
	if errors.Is(err, errNotInPath) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return exitNotFound
	}
	return exitNotExecutable
}
