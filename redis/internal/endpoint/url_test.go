package endpoint

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

func targetOf(raw string) (Target, error) {
	u, err := driver.Driver{URLs: Forms, OtherParams: OtherParams}.Parse(raw)
	if err != nil {
		return Target{}, err
	}
	return TargetOf(u)
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	type want struct {
		addrs              string
		user, password     string
		db                 int
		tls                string // the name to verify; - for the dialled name
		sentinelUser, spwd string
		master             string
	}
	for raw, w := range map[string]want{
		"redis://":                                {addrs: "localhost:6379"},
		"redis+unix://u:p%2Fw@/run/a%20b":         {addrs: "/run/a b", user: "u", password: "p/w"},
		"redis://localhost":                       {addrs: "localhost:6379"},
		"REDIS://localhost/2":                     {addrs: "localhost:6379", db: 2},
		"redis://u:p%40ss@h:1234/3?pool_size=7":   {addrs: "h:1234", user: "u", password: "p@ss", db: 3},
		"redis://:p@[::1]:1":                      {addrs: "[::1]:1", password: "p"},
		"rediss://h":                              {addrs: "h:6379", tls: "-"},
		"redis+unix:///run/redis.sock?db=4":       {addrs: "/run/redis.sock", db: 4},
		"redis+unix://u:p@/run/redis.sock":        {addrs: "/run/redis.sock", user: "u", password: "p"},
		"redis+sentinel://s1,s2:5,[::1]/mymaster": {addrs: "s1:26379 s2:5 [::1]:26379", master: "mymaster"},
		"redis+sentinel://u:p%2Fw@s1/m%20m/2":     {addrs: "s1:26379", user: "u", password: "p/w", master: "m m", db: 2},
		"rediss+sentinel://s1/m":                  {addrs: "s1:26379", master: "m", tls: "-"},
		"redis+cluster://h1,h2:7,[::1]:8":         {addrs: "h1:6379 h2:7 [::1]:8"},
		"redis+cluster://u:p@h1/":                 {addrs: "h1:6379", user: "u", password: "p"},
		"rediss+cluster://h1,h2?pool_size=7":      {addrs: "h1:6379 h2:6379", tls: "-"},
		"redis+sentinel://u:p@s1/m?sentinel_username=su&sentinel_password=s%26p": {
			addrs: "s1:26379", user: "u", password: "p", sentinelUser: "su", spwd: "s&p", master: "m",
		},
	} {
		target, err := targetOf(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		var got want
		client, err := NewClient(target, time.Second)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		_ = client.Close()
		switch {
		case target.Single != nil:
			o := target.Single
			got = want{addrs: o.Addr, user: o.Username, password: o.Password, db: o.DB}
			if o.TLSConfig != nil {
				got.tls = o.TLSConfig.ServerName + "-"
			}
			if !o.ContextTimeoutEnabled || o.MaxRetries > 0 || o.DialTimeout != time.Second || o.ReadTimeout != time.Second {
				t.Errorf("%s: ContextTimeoutEnabled %v, MaxRetries %d", raw, o.ContextTimeoutEnabled, o.MaxRetries)
			}
		case target.sentinel != nil:
			o := target.sentinel
			got = want{
				addrs: strings.Join(o.SentinelAddrs, " "), user: o.Username, password: o.Password, db: o.DB,
				sentinelUser: o.SentinelUsername, spwd: o.SentinelPassword, master: o.MasterName,
			}
			if o.TLSConfig != nil {
				got.tls = o.TLSConfig.ServerName + "-"
			}
		default:
			o := target.cluster
			got = want{addrs: strings.Join(o.Addrs, " "), user: o.Username, password: o.Password}
			if o.TLSConfig != nil {
				got.tls = o.TLSConfig.ServerName + "-"
			}
		}
		if !reflect.DeepEqual(got, w) {
			t.Errorf("%s:\n got %+v\nwant %+v", raw, got, w)
		}
	}
}

// Parsing never panics, and its errors are ErrInvalid, whatever the URL.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{
		"redis://u:p@h:1/2?db=3", "rediss://h", "redis+unix:///x", "redis+sentinel://u:p@a,b:1/m/2?sentinel_username=x",
		"redis+cluster://u:p@a,[::1]:2/?max_redirects=3", "redis+cluster://%zz@h", "redis://%2Ftmp",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		target, err := targetOf(raw)
		if err != nil {
			if !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("%q: %v is not ErrInvalid", raw, err)
			}
			return
		}
		client, err := NewClient(target, time.Second)
		if err == nil {
			_ = client.Close()
		} else if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%q: %v is not ErrInvalid", raw, err)
		}
	})
}

// The user and password of a Sentinel URL reach go-redis unchanged, whatever they contain.
func FuzzSentinelPassword(f *testing.F) {
	f.Add("p@ss:/?#[]%&=+ \x00é", "user")
	f.Fuzz(func(t *testing.T, password, user string) {
		raw := "redis+sentinel://" + driver.Escape(user) + ":" + driver.Escape(password) + "@h/m"
		if strings.Contains(user, ":") {
			return
		}
		target, err := targetOf(raw)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if o := target.sentinel; o.Username != user || o.Password != password {
			t.Errorf("%q: got %q, %q", raw, o.Username, o.Password)
		}
	})
}
