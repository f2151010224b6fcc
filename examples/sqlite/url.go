package sqlite

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/anylock/lock/backend"
)

func init() {
	backend.Register(backend.Driver{
		Name: "sqlite", Schemes: []string{"sqlite"}, Examples: []string{"sqlite:///var/lib/app/locks.db"},
		Guarantees: guarantees,
		Open: func(ctx context.Context, rawURL string) (backend.Backend, error) {
			path, err := parseURL(rawURL)
			if err != nil {
				return nil, err
			}
			s, err := Open(ctx, path)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}

// parseURL returns the file that a URL names.
func parseURL(rawURL string) (path string, err error) {
	rest, _, err := backend.TakeParams(rawURL) // refuses lock_… parameters: there are none
	if err != nil {
		return "", err
	}
	u, err := backend.SplitURL(rest)
	if err != nil {
		return "", err
	}
	path, err = url.PathUnescape(u.Path)
	if err != nil || u.HasUser || len(u.Hosts) > 0 || u.Query != "" || !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("%w: a sqlite url is sqlite:///path/of/the/file", backend.ErrInvalid)
	}
	return path, nil
}
