package file

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/anylock/lock/backend"
)

// parseURL returns the directory that a file URL names.
func parseURL(rawURL string) (dir string, err error) {
	rest, _, err := backend.TakeParams(rawURL)
	if err != nil {
		return "", err
	}
	u, err := backend.SplitURL(rest)
	if err != nil {
		return "", err
	}
	fail := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("%w: file url: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case u.Scheme != "file":
		return fail("another scheme")
	case u.HasUser:
		return fail("there is no user in it")
	case u.Query != "":
		return fail("it takes no parameters; write ? in a path as %%3F")
	case len(u.Hosts) > 1, len(u.Hosts) == 1 && !strings.EqualFold(u.Hosts[0], "localhost"):
		return fail("%q is a host, not a directory; a path needs three slashes, as in file:///var/lib/locks", strings.Join(u.Hosts, ","))
	}
	dir, err = url.PathUnescape(u.Path)
	switch {
	case err != nil:
		return fail("bad %%XX escape in the path")
	case strings.ContainsRune(dir, 0):
		return fail("NUL in the path")
	case dir == "":
		return fail("no directory; write file:///var/lib/locks")
	case !strings.HasPrefix(dir, "/"):
		return fail("relative path %q; write file:///var/lib/locks", dir)
	}
	if dir = filepath.Clean(filepath.FromSlash(dir)); dir == string(filepath.Separator) {
		return fail("the root directory is no place for locks")
	}
	return dir, nil
}
