package main

import (
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/anylock/lock/backend/driver"
)

// schemesByPort maps the stores' usual ports to their schemes.
var schemesByPort = map[string]string{
	"2181": "zookeeper", "2379": "etcd", "5432": "postgres", "6379": "redis", "11211": "memcached",
}

var hostAndPort = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]+$`)

// checkScheme returns an error if rawURL is a path, or a host and port without a scheme. It suggests a URL.
func checkScheme(rawURL string) error {
	switch {
	case strings.TrimSpace(rawURL) != rawURL:
		return usagef("the store's URL begins or ends with a blank or a line break")
	case filepath.IsAbs(rawURL) && !strings.HasPrefix(rawURL, "//") && !strings.ContainsAny(rawURL, "@?"): // no password
		return usagef("the store's URL has no scheme: did you mean %s?", show(fileURL(rawURL)))
	}
	address, rest, _ := strings.Cut(rawURL, "/")
	if !hostAndPort.MatchString(address) {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || isScheme(strings.ToLower(host)) {
		return nil
	}
	scheme, known := schemesByPort[port]
	switch {
	case !known:
		return usagef("the store's URL has no scheme, as in redis://%s (anylock backends lists them)", show(address))
	case rest == "":
		return usagef("the store's URL has no scheme: did you mean %s://%s?", scheme, show(address))
	default:
		return usagef("the store's URL has no scheme: did you mean %s://%s/...?", scheme, show(address))
	}
}

// isScheme reports whether a store has the scheme.
func isScheme(scheme string) bool {
	return slices.ContainsFunc(driver.Registered(),
		func(d driver.Driver) bool { return slices.Contains(d.Schemes(), scheme) })
}
