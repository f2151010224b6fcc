package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// splitCommand splits the arguments that follow our own flags into key and command: KEY [--] CMD [ARG...] or, as in
// flock(1), KEY -c LINE for a line of shell.
func splitCommand(args []string) (key string, argv []string, err error) {
	if len(args) == 0 {
		return "", nil, errors.New("KEY is missing")
	}
	key, argv = args[0], args[1:]
	switch {
	case len(argv) > 0 && argv[0] == "--":
		argv = argv[1:]
	case len(argv) > 0 && (argv[0] == "-c" || argv[0] == "--command"):
		switch {
		case len(argv) < 2 || argv[1] == "":
			return "", nil, fmt.Errorf("%s needs a line of shell", argv[0])
		case len(argv) > 2:
			return "", nil, fmt.Errorf("%s takes one argument; %s follows: quote the whole line", argv[0], show(argv[2]))
		case runtime.GOOS == "windows":
			return "", nil, fmt.Errorf("%s needs a Unix shell", argv[0])
		}
		return key, []string{"/bin/sh", "-c", argv[1]}, nil
	case len(argv) > 0 && strings.HasPrefix(argv[0], "-"):
		return "", nil, fmt.Errorf("option %s must come before KEY", show(argv[0]))
	}
	if len(argv) == 0 || argv[0] == "" {
		return "", nil, errors.New("the command is missing, as in: anylock run KEY -- CMD")
	}
	return key, argv, nil
}

// findCommand finds the program to run. run calls it before it acquires the lock, so that a typing error does not make
// others wait.
func findCommand(name string) (string, error) {
	file, err := lookup(name, os.Getenv("PATH"))
	if err != nil && strings.Contains(name, " ") && !strings.ContainsAny(name, `/\`) {
		err = fmt.Errorf("%w (for a line of shell, use -c, as in: anylock run KEY -c LINE)", reason(err))
	}
	if err != nil {
		return "", startError(name, err)
	}
	return file, nil
}

// startError returns the exit error for a command that could not be found or started.
func startError(name string, err error) error {
	return &exitError{code: commandExit(err), err: fmt.Errorf("%s: %w", show(name), reason(err))}
}

// execError returns err with its usual cause if the kernel does not run file, which findCommand has found.
func execError(file string, err error) error {
	_, missing := os.Stat(file)
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w (a script must begin with a line such as #!/bin/sh)", reason(err))
	case errors.Is(err, fs.ErrNotExist) && missing == nil:
		return fmt.Errorf("%w (the program that its first line names, or its loader, is missing)", reason(err))
	}
	return err
}

// reason returns err without the path and the system call around it.
func reason(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	if e := (*exec.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
