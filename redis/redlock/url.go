package redlock

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/redis/internal/endpoint"
)

// nodeURLs parses the URLs of single nodes. Their time limit is the fleet's.
var nodeURLs = driver.Driver{Name: "a redlock node", URLs: endpoint.ServerForms, OtherParams: endpoint.OtherParams}

// nodeOptions returns the options of every node: those of the hosts of u, then those of the URLs in its parameters.
func nodeOptions(u driver.URL) (list []*redis.Options, err error) {
	if hostPart := hostOnlyPart(u); hostPart != "" && len(u.Hosts) == 0 {
		return nil, fmt.Errorf("%w: %s url: %s; without hosts, write it in each %s", backend.ErrInvalid, u.Scheme, hostPart,
			paramNode)
	}
	var nodes []driver.URL
	for _, h := range u.Hosts {
		n := u
		n.Scheme, n.Hosts = endpoint.Native(u.Scheme), []string{h}
		nodes = append(nodes, n)
	}
	urls, err := driver.FillPasswords(u.Texts(paramNode), u.Texts(driver.ParamPassword))
	if err != nil {
		return nil, err
	}
	for _, raw := range urls {
		n, err := nodeURLs.Parse(raw)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		t, err := endpoint.TargetOf(n)
		if err != nil {
			return nil, err
		}
		list = append(list, t.Single)
	}
	return list, nil
}

// hostOnlyPart returns a part of u that applies only to u's hosts, or "" if u has no such part.
func hostOnlyPart(u driver.URL) string {
	switch param, _, _ := strings.Cut(strings.Trim(u.Query, "&"), "="); {
	case strings.Trim(u.Path, "/") != "":
		return "a path"
	case u.HasUser:
		return "a user or a password"
	case u.Secure:
		return "TLS"
	case param != "":
		_, query, _ := strings.Cut(u.Raw, "?") // also has the secrets that may precede the parameter
		name, _ := url.QueryUnescape(param)    // Parse has checked the escapes
		return driver.UnknownParam(query, name)
	}
	return ""
}
