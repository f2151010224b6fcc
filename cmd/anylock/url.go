package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/driver"
)

const urlFileEnv = "ANYLOCK_URL_FILE" // names a file with the store's URL

// backendURL returns the URL of the store to use: from the flags, else from the environment, else a directory of this
// user.
func (a *app) backendURL(ctx context.Context) (string, error) {
	given, err := readURL(ctx, "--backend", a.backend, "--backend-file", a.backendFile)
	a.warnOfPassword("--backend", a.backend.s)
	a.warnOfReaders("--backend-file", a.backendFile.s, given)
	if given == "" && err == nil {
		given, err = readURL(ctx, "$"+lock.URLEnv, envText(lock.URLEnv), "$"+urlFileEnv, envText(urlFileEnv))
		a.warnOfReaders("$"+urlFileEnv, envText(urlFileEnv).s, given)
	}
	if err == nil {
		err = checkScheme(given)
	}
	if given != "" || err != nil {
		return given, err
	}
	home, err := homeOfUser()
	if err != nil {
		return "", usagef("%w; set %s or use --backend", err, lock.URLEnv)
	}
	if !filepath.IsAbs(home) {
		return "", usagef("this user has no home directory to keep locks in; set %s or use --backend", lock.URLEnv)
	}
	dir := filepath.Join(home, ".local", "state", "anylock", "locks")
	if !a.hostIsEnough() && widthOf(a.stderr) == 0 {
		a.say("neither --backend nor $%s is set: locks are kept in %s, only for this user on this machine "+
			"(%s=reach=host if that is enough)", lock.URLEnv, dir, requireEnv)
	}
	return fileURL(dir), nil
}

// homeOfUser returns the home directory from the system's user database, not $HOME.
var homeOfUser = func() (string, error) {
	u, err := currentUser()
	if err != nil {
		return "", fmt.Errorf("no home directory to keep locks in: %w", err)
	}
	return u.HomeDir, nil
}

// readURL returns the URL that is given directly or in a file, empty if neither is given. A URL that is given but empty
// is an error, for example an unset variable: the default store in its place would exclude nobody.
func readURL(ctx context.Context, urlName string, rawURL text, fileName string, file text) (string, error) {
	switch {
	case rawURL.isSet && file.isSet:
		return "", usagef("%s and %s cannot be combined", urlName, fileName)
	case rawURL.isSet && rawURL.s == "":
		return "", usagef("%s is empty", urlName)
	case file.isSet && file.s == "":
		return "", usagef("%s is empty", fileName)
	case !file.isSet:
		return rawURL.s, nil
	}
	line, err := firstLine(ctx, file.s)
	if err == nil {
		err = checkFirstLine(line)
	}
	if err != nil && strings.Contains(file.s, "://") { // do not repeat its password
		return "", usagef("%s has a URL in place of the name of a file; use %s", fileName, urlName)
	}
	if err != nil {
		return "", usagef("%s %s: %w", fileName, show(file.s), reason(err))
	}
	return line, nil
}

// warnOfPassword warns of passwords in URLs on the command line. The flag has a counterpart with the suffix -file.
func (a *app) warnOfPassword(flag string, rawURLs ...string) {
	if slices.ContainsFunc(rawURLs, driver.HasPassword) {
		a.say("everybody on this machine can see the password in %s; use %s-file instead", flag, flag)
	}
}

// fileURL returns the URL of an absolute path.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/Users on Windows
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// sharedURL returns rawURL for the suite and the benchmarks: a store that several clients share, without lock_prefix
// and lock_token_base, which belong to package lock. A memory store without a name gets a name that begins with name.
func sharedURL(rawURL, name string) (string, error) {
	rest, _, _, err := driver.TakeLockParams(rawURL)
	if err != nil {
		return "", err
	}
	u, err := driver.SplitURL(rest)
	if err != nil {
		return "", err
	}
	if u.Scheme == "memory" && len(u.Hosts) == 0 && u.Path == "" {
		return "memory://" + name + strconv.Itoa(os.Getpid()), nil
	}
	return rest, nil
}

// open opens the store. Its errors are exit errors.
func (a *app) open(ctx context.Context, opts ...lock.Option) (*lock.Locker, error) {
	rawURL, err := a.backendURL(ctx)
	if err != nil {
		return nil, err
	}
	a.sayVerbose("backend %s", driver.Redact(rawURL))
	locks, err := lock.Open(ctx, rawURL, opts...)
	if err != nil {
		return nil, storeError(err)
	}
	return locks, nil
}
