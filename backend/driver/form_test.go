package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
)

// zoo is a driver whose URLs use every feature of URLForm and Param.
var zoo = Driver{
	Name: "zoo",
	URLs: []URLForm{
		{Scheme: "zoo", Secure: "zoos", Hosts: ManyHosts, User: true, Path: OptionalPath, Port: "1", SecurePort: "2",
			DefaultHost: "localhost"},
		{Scheme: "one", Hosts: OneHost},
		{Scheme: "dir", Path: RequiredPath},
		{Scheme: "none"},
	},
	Params: []Param{
		TimeoutParam(time.Second),
		{Name: "lock_word", Type: Bool},
		{Name: "lock_list", Many: true},
		{Name: "lock_low", Type: Number, Min: 1, Max: 7},
		{Name: "lock_high", Type: Number, Max: 9},
	},
	Examples: []string{"zoo://h", "zoo://h1,h2", "one://name"},
}

func TestParse(t *testing.T) {
	for raw, want := range map[string]URL{
		"zoo://":  {Scheme: "zoo", Hosts: []string{"localhost:1"}},
		"zoo:":    {Scheme: "zoo", Hosts: []string{"localhost:1"}},
		"zoos://": {Scheme: "zoos", Secure: true, Hosts: []string{"localhost:2"}},
		"ZOO://u:p@h1,h2:7,[::1]/a%20b/": {Scheme: "zoo", User: "u", Password: "p", HasUser: true,
			Hosts: []string{"h1:1", "h2:7", "[::1]:1"}, Path: "/a b/"},
		"zoos://h?cacert=/a&cert=/b&key=c": {Scheme: "zoos", Secure: true, Hosts: []string{"h:2"}},
		"one:":                             {Scheme: "one"},
		"one://a%2Fb":                      {Scheme: "one", Hosts: []string{"a%2Fb"}},
		"one://name/":                      {Scheme: "one", Hosts: []string{"name"}, Path: "/"},
		"dir:///a%3Fb":                     {Scheme: "dir", Path: "/a?b"},
		"dir:///a@b":                       {Scheme: "dir", Path: "/a@b"},
		"none:":                            {Scheme: "none"},
		"none:?timeout=1s":                 {Scheme: "none"},
	} {
		got, err := zoo.Parse(raw)
		if err != nil || !equalURL(got, want) || got.Secure != want.Secure || got.Raw != raw {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

func TestParseReadsParams(t *testing.T) {
	u, err := zoo.Parse("zoos://h?timeout=1m30s&lock_word=false&lock%5Flist=a%26b&lock_list=c+d&lock_low=7&&cacert=%2Fca")
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Duration(ParamTimeout); got != 90*time.Second {
		t.Errorf("duration %v", got)
	}
	if got := u.Text("lock_word"); got != "false" {
		t.Errorf("text %q", got)
	}
	if got := u.Texts("lock_list"); !slices.Equal(got, []string{"a&b", "c d"}) {
		t.Errorf("texts %q", got)
	}
	if got := u.Number("lock_low"); got != 7 {
		t.Errorf("number %d", got)
	}
	if got := u.Text(ParamCA); got != "/ca" || u.Query != "" {
		t.Errorf("cacert %q, rest %q", got, u.Query)
	}
	if u.Text("lock_none")+strings.Join(u.Texts("lock_none"), "") != "" || u.Duration("lock_none") != 0 ||
		u.Number("lock_none") != 0 {
		t.Error("a parameter that is missing has a value")
	}
}

// The parameters of the client library keep every byte and their order. An unknown parameter with the prefix lock_ is
// refused.
func TestParseKeepsOtherParams(t *testing.T) {
	d := zoo
	d.OtherParams = "a library"
	u, err := d.Parse("zoo://h?x=%20+&timeout=1s&y=%zz&lock_low=3&=?")
	if err != nil || u.Query != "x=%20+&y=%zz&=?" {
		t.Errorf("%q, %v", u.Query, err)
	}
	for _, raw := range []string{"zoo://h?lock_x=1", "zoo://h?lock%5Fx=1", "zoo://h?lock_=1"} {
		if _, err := d.Parse(raw); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for raw, hint := range map[string]string{
		"zoo":                           "scheme",
		"other://h":                     "other url: the schemes of zoo are zoo, zoos, one, dir, none",
		"zoo:h":                         "//",
		"zoo:/h":                        "// is missing",
		"zoo://h1,h1":                   "twice",
		"zoo://h1,h1:1":                 "twice",
		"zoo://h:0":                     "port",
		"zoo://::1":                     "port",
		"zoo://%2Frun":                  "host",
		"zoo:///a:b@c":                  "%2F",
		"zoo:///a@c":                    "%2F",
		"zoo://h/%zz":                   "path",
		"one://u:Zq@h":                  "user",
		"one://a,b":                     "2 hosts instead of one; write it as in zoo://h1,h2",
		"one://a/b":                     "path",
		"one:a":                         "path",
		"dir:":                          "path is missing",
		"dir:///":                       "path is missing",
		"dir:a/b":                       "/ before the path",
		"dir://a/b":                     "three slashes",
		"none://h":                      "host",
		"none:a":                        "path",
		"zoo://h?lock_c=Zq":             `unknown parameter "lock_c"; known: cacert, cert, key, lock_high, lock_list, lock_low, lock_word, timeout`,
		"zoo://h?lock%5fc=Zq":           `unknown parameter "lock_c"`,
		"dir:///a?lock_c=Zq":            `unknown parameter "lock_c"; known: lock_high, lock_list, lock_low, lock_word, timeout`,
		"zoo://h?lock_list=a%40Zq&b=1":  "behind a password",
		"zoo://h?lock_list=a://u&Zq%40": "behind a password",
		"zoo://h?cacert=Zq":             `"cacert" is for URLs with TLS`,
		"zoos://h?cacert=":              `"cacert" is empty`,
		"zoo://h?timeout=Zq":            `"timeout" is not a positive duration, as in 10s`,
		"zoo://h?timeout=10":            "duration",
		"zoo://h?timeout=0s":            "duration",
		"zoo://h?timeout=-1s":           "duration",
		"zoo://h?timeout":               "duration",
		"zoo://h?timeout=1s&timeout=Zq": `"timeout" is given twice`,
		"zoo://h?lock_word=Zq":          `"lock_word" is not true or false`,
		"zoo://h?lock_low=0":            `"lock_low" is not a number from 1 to 7`,
		"zoo://h?lock_low=Zq":           "number",
		"zoo://h?lock_high=-1":          `"lock_high" is not a number from 0 to 9`,
		"zoo://h?lock_high=10":          "number",
		"zoo://h?lock_high=":            "number",
		"zoo://h?lock_list=":            "empty",
		"zoo://h?lock_list=Zq%zz":       `"lock_list"`,
		"zoo://h?%zz=Zq":                "name",
	} {
		u, err := zoo.Parse(raw)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), hint) || u.Raw != "" {
			t.Errorf("%s: %v, want %q", raw, err, hint)
		}
		if err != nil && strings.Contains(err.Error(), "Zq") {
			t.Errorf("%s: %v shows a value", raw, err)
		}
	}
	_, err := Driver{Name: "bare", URLs: []URLForm{{Scheme: "bare"}}}.Parse("bare:?x=1")
	if err == nil || !strings.Contains(err.Error(), "this store has none") {
		t.Errorf("%v", err)
	}
}

// No way of printing a URL shows its passwords.
func TestURLIsPrintedWithoutPassword(t *testing.T) {
	u, err := zoo.Parse("zoo://u:secret@h/a?lock_list=secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%s", "%#v"} {
		if text := fmt.Sprintf(format, u); strings.Contains(text, "secret") || !strings.Contains(text, "zoo://h/a") {
			t.Errorf("%s: %s", format, text)
		}
	}
	if text, err := json.Marshal(u); string(text) != `"zoo://h/a"` || err != nil {
		t.Errorf("JSON: %s, %v", text, err)
	}
}

func TestAllParams(t *testing.T) {
	names := make(map[string]string)
	for _, p := range zoo.AllParams() {
		names[p.Name] = p.Type.String()
	}
	want := map[string]string{
		"cacert": "text", "cert": "text", "key": "text", "timeout": "duration",
		"lock_word": "true|false", "lock_list": "text", "lock_low": "number", "lock_high": "number",
	}
	if !maps.Equal(names, want) {
		t.Errorf("%v", names)
	}
	if got := zoo.Schemes(); !slices.Equal(got, []string{"zoo", "zoos", "one", "dir", "none"}) {
		t.Errorf("schemes %v", got)
	}
}

// Errors of Parse are ErrInvalid. In a parsed URL the hosts are complete, and the remaining query consists of
// parameters of the original query, in order.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"zoo://u:p@h1,h2:3/a?timeout=1s&x=1", "zoos://?cacert=/a", "one://a%2Fb", "dir:///a@b?lock_low=2",
		"none:?lock_list=%41&lock_list=b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		d := zoo
		d.OtherParams = "a library"
		u, err := d.Parse(raw)
		if err != nil {
			if !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		for _, h := range u.Hosts {
			if u.Scheme != "one" {
				if full, err := HostPort(h, "9"); err != nil || full != h {
					t.Errorf("%q: host %q", raw, h)
				}
			}
		}
		_, query, _ := strings.Cut(raw, "?")
		if !subsequence(strings.Split(u.Query, "&"), strings.Split(query, "&")) {
			t.Errorf("%q: query %q", raw, u.Query)
		}
		if strings.Contains(u.Query, ParamPrefix) && strings.HasPrefix(u.Query, ParamPrefix) {
			t.Errorf("%q: query %q", raw, u.Query)
		}
	})
}

// subsequence reports whether all of part is in whole, in order.
func subsequence(part, whole []string) bool {
	for _, w := range whole {
		if len(part) > 0 && part[0] == w {
			part = part[1:]
		}
	}
	return len(part) == 0 || len(part) == 1 && part[0] == ""
}
