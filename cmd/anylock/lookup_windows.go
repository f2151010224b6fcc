package main

import (
	"errors"
	"io/fs"
	"os/exec"
)

// lookup finds the program that name stands for, with the extensions of %PATHEXT%.
func lookup(name, _ string) (string, error) {
	file, err := exec.LookPath(name)
	if err != nil {
		return "", reason(err)
	}
	return file, nil
}

// commandExit is the exit code for a command that could not be started, as in a shell.
func commandExit(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}
