package driver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

func TestSplitURL(t *testing.T) {
	for _, test := range []struct {
		raw  string
		want URL
	}{
		{"memory:", URL{Scheme: "memory"}},
		{"memory:name", URL{Scheme: "memory", Path: "name"}},
		{"MEMORY://name", URL{Scheme: "memory", Hosts: []string{"name"}}},
		{"file:///var/run/locks", URL{Scheme: "file", Path: "/var/run/locks"}},
		{"file:///home/a@b:c", URL{Scheme: "file", Path: "/home/a@b:c"}},
		{"file:relative/dir", URL{Scheme: "file", Path: "relative/dir"}},
		{"redis://", URL{Scheme: "redis"}},
		{"redis://host", URL{Scheme: "redis", Hosts: []string{"host"}}},
		{"redis://host:6379/2?a=b&lock_c=d", URL{Scheme: "redis", Hosts: []string{"host:6379"}, Path: "/2",
			Query: "a=b&lock_c=d"}},
		{"redis://host?x=/?y", URL{Scheme: "redis", Hosts: []string{"host"}, Query: "x=/?y"}},
		{"redis://:p@host", URL{Scheme: "redis", HasUser: true, Password: "p", Hosts: []string{"host"}}},
		{"redis://@host", URL{Scheme: "redis", HasUser: true, Hosts: []string{"host"}}},
		{"redis://u%40x:p%2F%3a:@host", URL{Scheme: "redis", HasUser: true, User: "u@x", Password: "p/::",
			Hosts: []string{"host"}}},
		{"redis://u:a+b@host", URL{Scheme: "redis", HasUser: true, User: "u", Password: "a+b", Hosts: []string{"host"}}},
		{"redis+cluster://h1:1,h2:2", URL{Scheme: "redis+cluster", Hosts: []string{"h1:1", "h2:2"}}},
		{"etcd://[::1]:2379,[fe80::1%25eth0]:2379/p",
			URL{Scheme: "etcd", Hosts: []string{"[::1]:2379", "[fe80::1%25eth0]:2379"}, Path: "/p"}},
		{"postgres://u@%2Fvar%2Frun/db", URL{Scheme: "postgres", HasUser: true, User: "u", Hosts: []string{"%2Fvar%2Frun"},
			Path: "/db"}},
	} {
		got, err := SplitURL(test.raw)
		if err != nil || !equalURL(got, test.want) {
			t.Errorf("%s: %+v, %v\nwant %+v", test.raw, got, err, test.want)
		}
	}
}

// equalURL reports whether the parts that SplitURL returns are equal.
func equalURL(a, b URL) bool {
	hosts := slices.Equal(a.Hosts, b.Hosts)
	a.Hosts, b.Hosts = nil, nil
	return hosts && a.Scheme == b.Scheme && a.User == b.User && a.Password == b.Password && a.HasUser == b.HasUser &&
		a.Path == b.Path && a.Query == b.Query
}

func TestSplitURLRefuses(t *testing.T) {
	for raw, hint := range map[string]string{
		"":                              "scheme",
		"localhost":                     "scheme",
		"://host":                       "scheme",
		"1redis://host":                 "scheme",
		"re_dis://host":                 "scheme",
		"redis://h1,,h2":                "empty host",
		"redis://h1,":                   "empty host",
		"redis://a b":                   "blank",
		"redis://a\n":                   "control",
		"redis://a\x7f":                 "control",
		"redis://u:p#w@host":            "%23",
		"redis://u:%zz@host":            "escape",
		"redis://%zz:p@host":            "escape",
		"redis://u:Zq/Qz@host":          "%2F",
		"redis://u:Zq?Qz@host":          "%3F",
		"redis://u:12?Qz@host":          "%3F", // 12 could be a port
		"redis://u:12/Qz@host":          "%2F",
		"redis://u:/ZqQz@host":          "%2F",
		"redis://u:?ZqQz@host":          "%3F",
		"redis://u:Zq@Qz@host":          "%40",
		"redis://u:Zq[Qz@host":          "%5B",
		"redis://u:Zq]Qz@host":          "%5D",
		"redis://u:Zq\\Qz@host":         "%5C",
		"redis://u%3AZqQz@host":         "colon",
		"redis://u:ZqQz":                "port",
		"redis://host:":                 "port",
		"redis://[::1":                  "IPv6",
		"redis://h[::1]":                "IPv6",
		"redis://[::1]x":                "IPv6",
		"redis:u:ZqQz@host":             "//",
		"redis:/u:ZqQz@host":            "//",
		"redis:///u:Zq@h":               "%40",
		"file:///a/u:Zq@h":              "%40",
		"redis://h/u@Qz":                "%40",
		"redis://h?a=u@Qz":              "%40",
		"redis://h?a=b;c=d":             "%3B",
		"redis://h?password=Zq&Qz":      "%26",
		"redis://h?password=Zq&Q%5Az=1": "%26",
		"redis://h?p%61ssword=Zq&Qz":    "%26",
		"pair:?lock_first=a%3A%2F%2Fu%3AZq%40&Qz%40h": "%26",
	} {
		_, err := SplitURL(raw)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %v, want a hint at %q", raw, err, hint)
		}
		if err != nil && strings.Contains(err.Error(), "Zq") {
			t.Errorf("%q: %v shows the password", raw, err)
		}
	}
}

func TestTakeLockParams(t *testing.T) {
	for raw, want := range map[string]struct {
		rest, prefix string
		base         uint64
	}{
		"redis://h?a=1&lock_prefix=%41&lock_y=2":          {"redis://h?a=1&lock_y=2", "A", 0},
		"redis://h?a=1&lock_y=%2F":                        {"redis://h?a=1&lock_y=%2F", "", 0},
		"redis://h?lock%5Fprefix=A":                       {"redis://h", "A", 0},
		"redis://h?lock_prefix=":                          {"redis://h", "", 0},
		"redis://h":                                       {"redis://h", "", 0},
		"redis://h?lock_token_base=7&a=%2F&lock_prefix=A": {"redis://h?a=%2F", "A", 7},
		"redis://h?lock_token_base=36028797018963967&b=":  {"redis://h?b=", "", 1<<55 - 1},
	} {
		rest, prefix, base, err := TakeLockParams(raw)
		if rest != want.rest || prefix != want.prefix || base != want.base || err != nil {
			t.Errorf("%s: %q %q %d %v, want %+v", raw, rest, prefix, base, err, want)
		}
	}
	for _, raw := range []string{"redis://h?lock_prefix=1&lock_prefix=2", "redis://h?lock_prefix=%zz", "redis",
		"redis://h?lock_token_base=36028797018963968", "redis://h?lock_token_base=-1", "redis://h?lock_token_base="} {
		if _, _, _, err := TakeLockParams(raw); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", raw, err)
		}
	}
	if rest, err := WithoutTokenBase("redis://h?lock_token_base=7&lock_prefix=%41"); rest != "redis://h?lock_prefix=%41" {
		t.Errorf("%s, %v", rest, err)
	}
}

func FuzzSplitURL(f *testing.F) {
	for _, seed := range []string{
		"memory:", "file:///a@b", "redis://u:p@h:1,h2:2/0?a=b&lock_c=d", "etcd://[::1]:2379/x", "x://%zz@", "a:?#",
		"postgres://u@%2Fvar/db",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := SplitURL(raw)
		if err != nil {
			if !errors.Is(err, backend.ErrInvalid) || !equalURL(u, URL{}) {
				t.Errorf("%q: %+v, %v", raw, u, err)
			}
			return
		}
		if u.Scheme != strings.ToLower(raw[:len(u.Scheme)]) {
			t.Errorf("scheme %q", u.Scheme)
		}
		for _, h := range u.Hosts {
			if h == "" || strings.ContainsAny(h, "/?@,# ") {
				t.Errorf("%q: host %q", raw, h)
			}
		}
		if !u.HasUser && u.User+u.Password != "" {
			t.Errorf("%q: user without @: %+v", raw, u)
		}
		// The parts that are not decoded contain exactly the bytes of the URL.
		if !strings.HasSuffix(raw, u.Path+map[bool]string{true: "?" + u.Query, false: ""}[strings.Contains(raw, "?")]) {
			t.Errorf("%q: path %q, query %q", raw, u.Path, u.Query)
		}
		if !u.HasUser && !strings.Contains(raw, strings.Join(u.Hosts, ",")+u.Path) {
			t.Errorf("%q: hosts %q, path %q", raw, u.Hosts, u.Path)
		}
	})
}

func TestHostPort(t *testing.T) {
	for host, want := range map[string]string{
		"h": "h:1", "h:2": "h:2", "::1": "[::1]:1", "[::1]": "[::1]:1", "[::1]:2": "[::1]:2", "10.0.0.1": "10.0.0.1:1",
		"h:": "", "h:0": "", "h:65536": "", ":2": "", "h:2:3": "", "[::1": "", "[h": "", "h]": "",
	} {
		if got, err := HostPort(host, "1"); got != want || (err == nil) != (want != "") {
			t.Errorf("HostPort of %q: %q, %v; want %q", host, got, err, want)
		}
	}
}
