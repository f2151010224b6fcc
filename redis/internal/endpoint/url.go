// Package endpoint is what a URL and a Redis server itself tell of the server: clients, commands, settings, clock and cluster slots.
package endpoint

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/redis/internal/exchange"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

const (
	RedisPort    = "6379"
	sentinelPort = "26379"
)

// A Target is what a URL names: the options of exactly one kind of client.
type Target struct {
	Single   *redis.Options
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

// ParseURL turns a URL without our parameters into options of go-redis. go-redis parses a URL that is built anew from u's parts.
func ParseURL(raw string) (Target, error) {
	u, err := backend.SplitURL(raw)
	if err != nil {
		return Target{}, err
	}
	t, err := parse(u, raw)
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return Target{}, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, backend.CleanError(raw, err))
	}
	return t, nil
}

func parse(u backend.URL, raw string) (t Target, err error) {
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		return t, fmt.Errorf("bad %%XX escape in a parameter")
	}
	n := url.URL{Scheme: Native(u.Scheme)}
	if u.HasUser {
		n.User = url.UserPassword(u.User, u.Password)
	}
	switch u.Scheme {
	case "redis", "rediss", "redis+unix":
		if u.Scheme == "redis+unix" {
			n.Scheme = "unix"
			n.Path, err = socket(u)
		} else {
			err = singleURL(&n, u, raw)
		}
		if err == nil {
			err = native(n, query, u.Query, func(n string) (err error) { t.Single, err = redis.ParseURL(n); return err })
		}
	case "redis+sentinel", "rediss+sentinel":
		if err = sentinelURL(&n, u, query); err == nil {
			err = native(n, query, u.Query, func(n string) (err error) { t.sentinel, err = redis.ParseFailoverURL(n); return err })
		}
	case "redis+cluster", "rediss+cluster":
		if err = clusterURL(&n, u, query); err == nil {
			err = native(n, query, u.Query, func(n string) (err error) { t.cluster, err = redis.ParseClusterURL(n); return err })
		}
	default:
		err = fmt.Errorf("unknown scheme")
	}
	return t, err
}

// native lets go-redis parse n with query. Its errors name the parameter that go-redis refuses, but no values.
func native(n url.URL, query url.Values, raw string, parse func(string) error) error {
	n.RawQuery = query.Encode()
	err := parse(n.String())
	if err == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		rest := maps.Clone(query)
		delete(rest, name)
		one := n
		one.RawQuery = rest.Encode()
		if parse(one.String()) != nil {
			continue // this parameter is not the only one that is wrong
		}
		if strings.Contains(err.Error(), "unexpected option") {
			return fmt.Errorf("%s", backend.UnknownParam(raw, name))
		}
		return fmt.Errorf("parameter %q has a value that is not valid", name)
	}
	return fmt.Errorf("several parameters are unknown or have values that are not valid")
}

func singleURL(n *url.URL, u backend.URL, raw string) (err error) {
	_, rest, _ := strings.Cut(raw, ":")
	switch {
	case !strings.HasPrefix(rest, "//"):
		return fmt.Errorf("// is missing behind the scheme")
	case len(u.Hosts) > 1: // go-redis would take the commas for a part of the host
		return fmt.Errorf("%d hosts: use redis+sentinel:// or redis+cluster://", len(u.Hosts))
	}
	if n.Host, _, err = hosts(u.Hosts, RedisPort); err != nil {
		return err
	}
	n.Path, err = database(u.Path)
	return err
}

// database returns the path of a URL, which is a database's number or empty.
func database(path string) (string, error) {
	path = strings.Trim(path, "/")
	if path == "" {
		return "", nil
	}
	if n, err := strconv.ParseUint(path, 10, 31); err != nil || path != strconv.FormatUint(n, 10) {
		return "", fmt.Errorf("the path is not the number of a database, as in /0 (escape / as %%2F in a password)")
	}
	return "/" + path, nil
}

func socket(u backend.URL) (path string, err error) {
	if len(u.Hosts) > 0 { // go-redis would ignore it
		return "", fmt.Errorf("host before the socket's path: write redis+unix:///path")
	}
	if !strings.HasPrefix(u.Path, "/") {
		return "", fmt.Errorf("the socket's path is not absolute")
	}
	if path, err = url.PathUnescape(u.Path); err != nil {
		return "", fmt.Errorf("bad %%XX escape in the socket's path")
	}
	return path, nil
}

// sentinelURL translates. With us the user belongs to the data nodes, as in the URLs of other languages' clients; with
// go-redis to the Sentinels, and the data nodes' user, the master's name and further hosts are parameters.
func sentinelURL(n *url.URL, u backend.URL, query url.Values) error {
	if _, err := u.NamePath(); err != nil {
		return err
	}
	master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	master, err := url.PathUnescape(master)
	if err != nil || master == "" {
		return fmt.Errorf("path is not /master-name or /master-name/db")
	}
	for _, name := range []string{"master_name", "username", "password", "addr", "db"} {
		if query.Has(name) {
			return fmt.Errorf("parameter %q: write it as in redis+sentinel://user:password@host,host/master-name/db", name)
		}
	}
	if n.Path, err = database(db); err != nil {
		return err
	}
	n.User = nil
	if name, password := query.Get("sentinel_username"), query.Get("sentinel_password"); name != "" || password != "" {
		n.User = url.UserPassword(name, password)
	}
	query.Del("sentinel_username")
	query.Del("sentinel_password")
	query.Set("master_name", master)
	if u.HasUser {
		query.Set("username", u.User)
		query.Set("password", u.Password)
	}
	n.Host, query["addr"], err = hosts(u.Hosts, sentinelPort)
	return err
}

func clusterURL(n *url.URL, u backend.URL, query url.Values) (err error) {
	if strings.Trim(u.Path, "/") != "" { // go-redis would ignore it
		return fmt.Errorf("a path: a cluster has one database")
	}
	if query.Has("addr") {
		return fmt.Errorf("parameter %q: write hosts as in redis+cluster://host,host", "addr")
	}
	n.Host, query["addr"], err = hosts(u.Hosts, RedisPort)
	return err
}

func Native(scheme string) string {
	scheme, _, _ = strings.Cut(scheme, "+")
	return scheme
}

// hosts gives every host a port, and returns the first one and the others.
func hosts(list []string, port string) (first string, others []string, err error) {
	full := make([]string, len(list))
	for i, h := range list {
		if full[i], err = backend.HostPort(h, port); err != nil {
			return "", nil, err
		}
	}
	if len(full) == 0 {
		return net.JoinHostPort("localhost", port), nil, nil
	}
	return full[0], full[1:], nil
}

// check refuses options that would send locks to replicas, and databases that do not exist.
func (t Target) check() error {
	replicas := false
	if t.Single != nil && t.Single.DB < 0 {
		return fmt.Errorf("parameter %q is negative", "db")
	}
	if s := t.sentinel; s != nil {
		replicas = s.ReplicaOnly || s.RouteByLatency || s.RouteRandomly || s.UseDisconnectedReplicas
	}
	if c := t.cluster; c != nil {
		replicas = c.ReadOnly || c.RouteByLatency || c.RouteRandomly
	}
	if replicas {
		return fmt.Errorf("parameter that asks for replicas: locks live on the master")
	}
	return nil
}

// open makes the client. Its timeouts are short unless the URL says otherwise, and it leaves repeating to us.
func (t Target) open() (client redis.UniversalClient, timeout time.Duration) {
	const never = -1
	switch {
	case t.Single != nil:
		o := t.Single
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		timeout = timeouts(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
		if o.MaxRetries == 0 {
			o.MaxRetries = never
		}
		return redis.NewClient(o), timeout
	case t.sentinel != nil:
		o := t.sentinel
		o.ContextTimeoutEnabled, o.DialerRetries = true, max(o.DialerRetries, 1)
		timeout = timeouts(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
		if o.MaxRetries == 0 {
			o.MaxRetries = never
		}
		if o.TLSConfig != nil {
			o.TLSConfig.ServerName = "" // each server's own name, not the first Sentinel's
		}
		return redis.NewFailoverClient(o), timeout
	default:
		o := t.cluster
		o.ContextTimeoutEnabled, o.DialerRetries = true, max(o.DialerRetries, 1)
		timeout = timeouts(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
		if o.TLSConfig != nil {
			o.TLSConfig.ServerName = "" // each server's own name, not the first one's
		}
		return redis.NewClusterClient(o), timeout
	}
}

// NameMaster returns err, from the first request to t's servers. It says so if the Sentinels answered that they do not know t's master.
func (t Target) NameMaster(err error) error {
	if t.sentinel == nil || err == nil || !errors.Is(err, redis.Nil) && !strings.Contains(err.Error(), redis.Nil.Error()) {
		return err
	}
	return fmt.Errorf("%w: the Sentinels do not know a master %q", backend.ErrUnavailable, t.sentinel.MasterName)
}

// timeouts fills in what is not set, or switched off, and returns the timeout of a whole request.
func timeouts(dial, read, write *time.Duration) time.Duration {
	for _, d := range []*time.Duration{dial, read, write} {
		if *d <= 0 {
			*d = exchange.DefaultTimeout
		}
	}
	return *read
}

// NewClient makes t's client. Options that go-redis cannot satisfy, such as an absurd pool_size, make it panic.
func NewClient(t Target) (client redis.UniversalClient, timeout time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: url: %v", backend.ErrInvalid, p)
		}
	}()
	client, timeout = t.open()
	return client, timeout, nil
}

// OpenTimeout bounds the look at the server on opening.
const OpenTimeout = 5 * time.Second
