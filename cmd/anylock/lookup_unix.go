//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lookup finds the file that execvp(3) would run for name. exec.LookPath is not used because it does not tell a file
// that may not be executed from one that is not there.
func lookup(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "." // POSIX
		}
		file := dir + "/" + name // filepath.Join would drop the ./ that makes it a path
		err := executable(file)
		if err == nil {
			return file, nil
		}
		// A folder that we may not look into, as in a $PATH that su(1) has left from root, does not tell that it is there.
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

func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return reason(err)
	}
	if info.IsDir() {
		return fmt.Errorf("%w: is a directory", fs.ErrPermission)
	}
	// Root may access everything, but executes only what is executable for somebody.
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
		return err
	}
	return nil
}

// commandExit is the exit code for a command that could not be started, as in a shell.
func commandExit(err error) int {
	if errors.Is(err, errNotInPath) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return exitNotFound
	}
	return exitNotExecutable
}
