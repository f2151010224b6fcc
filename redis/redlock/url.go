package redlock

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
)

const (
	paramNode   = backend.ParamPrefix + "node"
	paramMaxTTL = backend.ParamPrefix + "max_ttl"
)

// nodeOptions returns the options of every node: the hosts of a URL without parameters of ours, and urls.
func nodeOptions(raw string, urls []string) ([]*redis.Options, error) {
	u, err := backend.SplitURL(raw)
	if err != nil {
		return nil, err
	}
	fail := func(err error) error { return fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err) }
	if len(u.Hosts) == 0 && strings.Trim(u.Path, "/") != "" {
		return nil, fail(fmt.Errorf("a path without hosts"))
	}
	for _, h := range u.Hosts {
		host, err := backend.HostPort(h, endpoint.RedisPort)
		if err != nil {
			return nil, fail(err)
		}
		n := endpoint.Native(u.Scheme) + "://"
		if u.HasUser {
			n += backend.Escape(u.User) + ":" + backend.Escape(u.Password) + "@"
		}
		if n += host + u.Path; u.Query != "" {
			n += "?" + u.Query
		}
		urls = append(urls, n)
	}
	var list []*redis.Options
	var addrs []string
	for _, n := range urls {
		t, err := endpoint.ParseURL(n)
		if err != nil {
			return nil, err
		}
		if t.Single == nil {
			return nil, fail(fmt.Errorf("a node is one server: redis://, rediss:// or redis+unix://"))
		}
		list = append(list, t.Single)
		addrs = append(addrs, t.Single.Addr)
	}
	if err := validateNodes(addrs); err != nil {
		return nil, err
	}
	return list, nil
}

// takeNodes removes the parameters that name a node, of which there may be many, and puts the passwords of lock_password into them.
func takeNodes(raw string) (rest string, nodes []string, err error) {
	if _, err := backend.SplitURL(raw); err != nil {
		return "", nil, err
	}
	base, text, _ := strings.Cut(raw, "?")
	query, err := url.ParseQuery(text)
	if err != nil {
		return "", nil, fmt.Errorf("%w: url: bad %%XX escape in a parameter", backend.ErrInvalid)
	}
	nodes, err = backend.FillPasswords(query[paramNode], query[backend.ParamPassword])
	if err != nil {
		return "", nil, err
	}
	query.Del(paramNode)
	query.Del(backend.ParamPassword)
	if len(query) == 0 {
		return base, nodes, nil
	}
	return base + "?" + query.Encode(), nodes, nil
}
