// Package endpoint creates clients from URLs, and inspects Redis servers: their commands, settings, clocks and cluster
// slots.
package endpoint

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/tlsurl"
)

const redisPort = "6379"

// ServerForms are the URL forms of a single server. Forms adds those of Sentinel and Cluster, which also have one
// master for each key. FleetForm is that of Redlock.
var (
	ServerForms = []driver.URLForm{
		{
			Scheme: "redis", Secure: "rediss", Port: redisPort, Hosts: driver.OneHost, DefaultHost: "localhost",
			User: true, Path: driver.OptionalPath,
		},
		{Scheme: "redis+unix", User: true, Path: driver.RequiredPath},
	}
	Forms = append(slices.Clip(ServerForms), // the user is for the data nodes
		driver.URLForm{
			Scheme: "redis+sentinel", Secure: "rediss+sentinel", Port: "26379",
			Hosts: driver.ManyHosts, DefaultHost: "localhost", User: true, Path: driver.RequiredPath,
		},
		driver.URLForm{
			Scheme: "redis+cluster", Secure: "rediss+cluster", Port: redisPort,
			Hosts: driver.ManyHosts, DefaultHost: "localhost", User: true,
		})
	FleetForm = driver.URLForm{
		Scheme: "redis+redlock", Secure: "rediss+redlock", Port: redisPort,
		Hosts: driver.ManyHosts, User: true, Path: driver.OptionalPath,
	}
)

// OtherParams names the client library that parses all other parameters.
const OtherParams = "go-redis"

// A Target holds what a URL specifies: the options of exactly one kind of client.
type Target struct {
	Single   *redis.Options
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

// TargetOf converts a URL of Forms to options of go-redis. It builds a new URL from u's parts, which go-redis parses.
func TargetOf(u driver.URL) (Target, error) {
	t, err := parse(u)
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return Target{}, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err)
	}
	config, err := tlsurl.Config(u)
	if config != nil {
		t.secure(config)
	}
	return t, err
}

// secure sets the client's TLS configuration to config. It keeps the verification and, for a single server, the
// server's name that go-redis has read from the URL.
func (t Target) secure(config *tls.Config) {
	var at **tls.Config
	switch {
	case t.Single != nil:
		at = &t.Single.TLSConfig
		config.ServerName = (*at).ServerName
	case t.sentinel != nil:
		at = &t.sentinel.TLSConfig
	default:
		at = &t.cluster.TLSConfig
	}
	config.InsecureSkipVerify = (*at).InsecureSkipVerify
	*at = config
}

func parse(u driver.URL) (t Target, err error) {
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		return t, fmt.Errorf("bad %%XX escape in a parameter")
	}
	for _, name := range []string{"dial_timeout", "read_timeout", "write_timeout"} {
		if query.Has(name) {
			return t, fmt.Errorf("parameter %q: write %s, the limit for a whole request", name, driver.ParamTimeout)
		}
	}
	n := url.URL{Scheme: Native(u.Scheme)}
	if u.HasUser {
		n.User = url.UserPassword(u.User, u.Password)
	}
	if len(u.Hosts) > 0 {
		n.Host = u.Hosts[0]
	}
	switch _, kind, _ := strings.Cut(u.Scheme, "+"); kind {
	case "sentinel":
		if err = sentinelURL(&n, u, query); err == nil {
			err = native(n, query, u.Query, func(n string) (err error) {
				t.sentinel,
					err = redis.ParseFailoverURL(n)
				return err
			})
		}
	case "cluster":
		if query.Has("addr") {
			return t, fmt.Errorf("parameter %q: write hosts as in redis+cluster://host,host", "addr")
		}
		query["addr"] = u.Hosts[1:]
		err = native(n, query, u.Query, func(n string) (err error) { t.cluster, err = redis.ParseClusterURL(n); return err })
	default:
		if n.Path = u.Path; kind == "unix" {
			n.Scheme = kind
		} else {
			n.Path, err = database(u.Path)
		}
		if err == nil {
			err = native(n, query, u.Query, func(n string) (err error) { t.Single, err = redis.ParseURL(n); return err })
		}
	}
	return t, err
}

// native makes go-redis parse n with query. Its errors name the parameter that go-redis rejects, but no values.
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
			return fmt.Errorf("%s", driver.UnknownParam(raw, name))
		}
		return fmt.Errorf("parameter %q has a value that is not valid", name)
	}
	return fmt.Errorf("several parameters are unknown or have values that are not valid")
}

// database returns the path of a URL, which is a database's number with a slash in front, or empty.
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

// sentinelURL translates u for go-redis. In our URLs the user is for the data nodes, as in the URLs of other languages'
// clients. In go-redis' URLs the user is for the Sentinels, and parameters name the data nodes' user, the master and
// further hosts.
func sentinelURL(n *url.URL, u driver.URL, query url.Values) (err error) {
	master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if master == "" {
		return fmt.Errorf("path is not /master-name or /master-name/db")
	}
	for _, name := range []string{"master_name", "username", "password", "addr", "db"} {
		if query.Has(name) {
			return fmt.Errorf("parameter %q: write it as in redis+sentinel://user:password@host,host/master-name/db", name)
		}
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
	query["addr"] = u.Hosts[1:]
	n.Path, err = database(db)
	return err
}

// Native returns go-redis' scheme for one server.
func Native(scheme string) string {
	scheme, _, _ = strings.Cut(scheme, "+")
	return scheme
}

// check rejects options that would read from replicas, and negative numbers of databases.
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

// open creates the client, whose requests take at most timeout. It turns off go-redis' retries, unless the URL sets
// them, because the stores retry.
func (t Target) open(timeout time.Duration) redis.UniversalClient {
	const never = -1
	switch {
	case t.Single != nil:
		o := t.Single
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
		if o.MaxRetries == 0 {
			o.MaxRetries = never
		}
		return redis.NewClient(o)
	case t.sentinel != nil:
		o := t.sentinel
		o.ContextTimeoutEnabled, o.DialerRetries = true, max(o.DialerRetries, 1)
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
		if o.MaxRetries == 0 {
			o.MaxRetries = never
		}
		return redis.NewFailoverClient(o)
	default:
		o := t.cluster
		o.ContextTimeoutEnabled, o.DialerRetries = true, max(o.DialerRetries, 1)
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
		return redis.NewClusterClient(o)
	}
}

// NameMaster returns err, the error of the first request to t's servers. If the Sentinels replied that they do not know
// t's master, the error names the master.
func (t Target) NameMaster(err error) error {
	if t.sentinel == nil || err == nil || !errors.Is(err, redis.Nil) && !strings.Contains(err.Error(), redis.Nil.Error()) {
		return err
	}
	return fmt.Errorf("%w: the Sentinels do not know a master %q", backend.ErrUnavailable, t.sentinel.MasterName)
}

// NewClient creates t's client, whose requests take at most timeout. Options that go-redis cannot satisfy, such as an
// absurd pool_size, make go-redis panic: NewClient returns that as an error.
func NewClient(t Target, timeout time.Duration) (client redis.UniversalClient, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: url: %v", backend.ErrInvalid, p)
		}
	}()
	return t.open(timeout), nil
}

// OpenTimeout bounds the inspection of the servers on opening.
const OpenTimeout = 5 * time.Second
