package main

import (
	"errors"
	"io/fs"
	"os/exec"
)

// lookup finds the program for name, with the extensions of %PATHEXT%.
func lookup(name, _ string) (string, error) {
	file, err := exec.LookPath(name)
	if err != nil {
		return "", reason(err)
	}
	return file, nil
}

// commandExit returns the exit code for a command that could not be started, as a shell would.
func commandExit(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}
