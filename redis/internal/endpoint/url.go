// Package endpoint is what a URL and a Redis server itself tell of the server: clients, commands, settings, clock and cluster slots.
package endpoint

import (
	"fmt"
	"net"
	"net/url"
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

// ParseURL turns a URL without our parameters into options of go-redis, by go-redis' own parsers.
func ParseURL(raw string) (Target, error) {
	u, err := backend.SplitURL(raw)
	if err != nil {
		return Target{}, err
	}
	var t Target
	var native string // the URL as go-redis wants it
	switch u.Scheme {
	case "redis", "rediss":
		native, err = singleURL(u, raw)
		if err == nil {
			t.Single, err = redis.ParseURL(native)
		}
	case "redis+unix":
		native, err = unixURL(u, raw)
		if err == nil {
			t.Single, err = redis.ParseURL(native)
		}
	case "redis+sentinel", "rediss+sentinel":
		native, err = sentinelURL(u)
		if err == nil {
			t.sentinel, err = redis.ParseFailoverURL(native)
		}
	case "redis+cluster", "rediss+cluster":
		native, err = clusterURL(u)
		if err == nil {
			t.cluster, err = redis.ParseClusterURL(native)
		}
	default:
		err = fmt.Errorf("unknown scheme")
	}
	if err == nil {
		err = t.check()
	}
	if err != nil {
		if native != "" {
			err = backend.CleanError(native, err)
		}
		err = backend.CleanError(raw, err)
		return Target{}, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err)
	}
	return t, nil
}

func singleURL(u backend.URL, raw string) (string, error) {
	_, rest, _ := strings.Cut(raw, ":")
	switch {
	case !strings.HasPrefix(rest, "//"):
		return "", fmt.Errorf("// is missing behind the scheme")
	case len(u.Hosts) > 1: // go-redis would take the commas for a part of the host
		return "", fmt.Errorf("%d hosts: use redis+sentinel:// or redis+cluster://", len(u.Hosts))
	}
	return u.Scheme + ":" + rest, nil
}

func unixURL(u backend.URL, raw string) (string, error) {
	if len(u.Hosts) > 0 { // go-redis would ignore it
		return "", fmt.Errorf("host before the socket's path: write redis+unix:///path")
	}
	if !strings.HasPrefix(u.Path, "/") {
		return "", fmt.Errorf("the socket's path is not absolute")
	}
	_, rest, _ := strings.Cut(raw, ":")
	return "unix:" + rest, nil
}

// sentinelURL translates. With us the user belongs to the data nodes, as in the URLs of other languages' clients; with
// go-redis to the Sentinels, and the data nodes' user, the master's name and further hosts are parameters.
func sentinelURL(u backend.URL) (string, error) {
	master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	master, err := url.PathUnescape(master)
	if err != nil || master == "" {
		return "", fmt.Errorf("path is not /master-name or /master-name/db")
	}
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		return "", fmt.Errorf("bad %%XX escape in a parameter")
	}
	for _, name := range []string{"master_name", "username", "password", "addr", "db"} {
		if query.Has(name) {
			return "", fmt.Errorf("parameter %q: write it as in redis+sentinel://user:password@host,host/master-name/db", name)
		}
	}
	n := url.URL{Scheme: Native(u.Scheme), Path: "/" + db}
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
	if n.Host, query["addr"], err = hosts(u.Hosts, sentinelPort); err != nil {
		return "", err
	}
	n.RawQuery = query.Encode()
	return n.String(), nil
}

func clusterURL(u backend.URL) (string, error) {
	if strings.Trim(u.Path, "/") != "" { // go-redis would ignore it
		return "", fmt.Errorf("path %q: a cluster has one database", u.Path)
	}
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		return "", fmt.Errorf("bad %%XX escape in a parameter")
	}
	if query.Has("addr") {
		return "", fmt.Errorf("parameter %q: write hosts as in redis+cluster://host,host", "addr")
	}
	n := url.URL{Scheme: Native(u.Scheme)}
	if u.HasUser {
		n.User = url.UserPassword(u.User, u.Password)
	}
	if n.Host, query["addr"], err = hosts(u.Hosts, RedisPort); err != nil {
		return "", err
	}
	n.RawQuery = query.Encode()
	return n.String(), nil
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

// check refuses options that would send locks to replicas.
func (t Target) check() error {
	replicas := false
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
