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
	tls      **tls.Config // that of the options
}

// TargetOf converts a URL of Forms to options of go-redis, which parses the parameters.
func TargetOf(u driver.URL) (Target, error) {
	t, err := parse(u)
	if err != nil {
		return Target{}, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err)
	}
	config, err := tlsurl.Config(u)
	if config != nil { // the name to verify is the dialled one
		config.InsecureSkipVerify = (*t.tls).InsecureSkipVerify
		*t.tls = config
	}
	return t, err
}

func parse(u driver.URL) (Target, error) {
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		return Target{}, fmt.Errorf("bad %%XX escape in a parameter")
	}
	if err := refuse(query, driver.ParamTimeout+", the limit for a whole request",
		"dial_timeout", "read_timeout", "write_timeout"); err != nil {
		return Target{}, err
	}
	switch _, kind, _ := strings.Cut(u.Scheme, "+"); kind {
	case "sentinel":
		return sentinel(u, query)
	case "cluster":
		return cluster(u, query)
	case "unix":
		return single(u, query, "")
	}
	return single(u, query, u.Path)
}

// refuse returns an error if query has one of the parameters. The error says what to write instead.
func refuse(query url.Values, instead string, names ...string) error {
	for _, name := range names {
		if query.Has(name) {
			return fmt.Errorf("parameter %q: write %s", name, instead)
		}
	}
	return nil
}

// single returns the options of one server, with the database in path. If u has no host, its path is that of a socket.
func single(u driver.URL, query url.Values, path string) (Target, error) {
	o, err := options(redis.ParseURL, u, query, path)
	if err != nil {
		return Target{}, err
	}
	if o.DB < 0 {
		return Target{}, fmt.Errorf("parameter %q is negative", "db")
	}
	if len(u.Hosts) == 0 {
		o.Network, o.Addr = "unix", u.Path
	}
	o.Username, o.Password = u.User, u.Password
	return Target{Single: o, tls: &o.TLSConfig}, nil
}

var errReplicas = errors.New("parameter that asks for replicas: locks live on the master")

// sentinel returns the options of a master with Sentinels. The user is for the data nodes, as in the URLs of other
// languages' clients.
func sentinel(u driver.URL, query url.Values) (Target, error) {
	master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if master == "" {
		return Target{}, fmt.Errorf("path is not /master-name or /master-name/db")
	}
	if err := refuse(query, "it as in redis+sentinel://user:password@host,host/master-name/db",
		"master_name", "username", "password", "addr", "db"); err != nil {
		return Target{}, err
	}
	user, password := query.Get("sentinel_username"), query.Get("sentinel_password")
	query.Del("sentinel_username")
	query.Del("sentinel_password")
	o, err := options(redis.ParseFailoverURL, u, query, db)
	if err != nil {
		return Target{}, err
	}
	if o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly || o.UseDisconnectedReplicas {
		return Target{}, errReplicas
	}
	o.MasterName, o.SentinelAddrs = master, u.Hosts
	o.Username, o.Password, o.SentinelUsername, o.SentinelPassword = u.User, u.Password, user, password
	return Target{sentinel: o, tls: &o.TLSConfig}, nil
}

// cluster returns the options of a cluster.
func cluster(u driver.URL, query url.Values) (Target, error) {
	if err := refuse(query, "hosts as in redis+cluster://host,host", "addr"); err != nil {
		return Target{}, err
	}
	o, err := options(redis.ParseClusterURL, u, query, "")
	if err != nil {
		return Target{}, err
	}
	if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
		return Target{}, errReplicas
	}
	o.Addrs, o.Username, o.Password = u.Hosts, u.User, u.Password
	return Target{cluster: o, tls: &o.TLSConfig}, nil
}

// options makes go-redis parse a URL of u's first host, with the database in path and with query. It turns off
// go-redis' retries, unless query sets them, because the stores retry. Its errors name the parameter that go-redis
// rejects, but no values.
func options[O any](parse func(string) (*O, error), u driver.URL, query url.Values, path string) (*O, error) {
	n := url.URL{Scheme: Native(u.Scheme)}
	if len(u.Hosts) > 0 {
		n.Host = u.Hosts[0]
	}
	var err error
	if n.Path, err = database(path); err != nil {
		return nil, err
	}
	if v := query.Get("max_retries"); v == "" || v == "0" {
		query.Set("max_retries", "-1")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		n.RawQuery = url.Values{name: query[name]}.Encode()
		switch _, err := parse(n.String()); {
		case err == nil:
		case strings.Contains(err.Error(), "unexpected option"):
			return nil, fmt.Errorf("%s", driver.UnknownParam(u.Query, name))
		default:
			return nil, fmt.Errorf("parameter %q has a value that is not valid", name)
		}
	}
	n.RawQuery = query.Encode()
	return parse(n.String())
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

// Native returns go-redis' scheme for one server.
func Native(scheme string) string {
	scheme, _, _ = strings.Cut(scheme, "+")
	return scheme
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
	switch {
	case t.Single != nil:
		o := t.Single
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
		return redis.NewClient(o), nil
	case t.sentinel != nil:
		o := t.sentinel
		o.ContextTimeoutEnabled, o.DialerRetries = true, max(o.DialerRetries, 1)
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
		return redis.NewFailoverClient(o), nil
	default:
		o := t.cluster
		o.ContextTimeoutEnabled, o.DialerRetries = true, max(o.DialerRetries, 1)
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
		return redis.NewClusterClient(o), nil
	}
}

// OpenTimeout bounds the inspection of the servers on opening.
const OpenTimeout = 5 * time.Second
