package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

// backendURL is the store to use: --backend, else $ANYLOCK_URL, else a directory in the user's state directory.
func (a *app) backendURL() (string, error) {
	if a.backend != "" {
		return a.backend, nil
	}
	if u := a.getenv(lock.URLEnv); u != "" {
		return u, nil
	}
	dir, err := a.stateDir()
	if err != nil {
		return "", usagef("%w; set %s or use --backend", err, lock.URLEnv)
	}
	return fileURL(filepath.Join(dir, "anylock", "locks")), nil
}

// stateDir follows the XDG Base Directory Specification, which says to ignore a relative $XDG_STATE_HOME.
func (a *app) stateDir() (string, error) {
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if home := a.getenv(homeVariable); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state"), nil
	}
	return "", errors.New("no home directory to keep locks in")
}

// fileURL is the URL of an absolute path.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/Users on Windows
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// sharedURL is rawURL as the suite and the benchmarks need it: without lock_prefix, which is package lock's, and naming a store
// that several clients share. Memory without a name gets one that begins with name.
func sharedURL(rawURL, name string) (string, error) {
	rest, _, _, err := backend.TakeParam(rawURL, "lock_prefix")
	if err != nil {
		return "", err
	}
	u, err := backend.SplitURL(rest)
	if err != nil {
		return "", err
	}
	if u.Scheme == "memory" && len(u.Hosts) == 0 && u.Path == "" {
		return "memory://" + name + strconv.Itoa(os.Getpid()), nil
	}
	return rest, nil
}

// open opens the store. Its errors are exits.
func (a *app) open(ctx context.Context, opts ...lock.Option) (*lock.Locker, error) {
	rawURL, err := a.backendURL()
	if err != nil {
		return nil, err
	}
	a.sayVerbose("backend %s", backend.Redact(rawURL))
	locks, err := lock.Open(ctx, rawURL, opts...)
	if err != nil {
		return nil, storeError(err)
	}
	return locks, nil
}
