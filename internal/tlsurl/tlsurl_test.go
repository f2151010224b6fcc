package tlsurl

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/anylock/lock/backend"
)

func TestTake(t *testing.T) {
	const secure = "stores"
	for query, want := range map[string]Files{
		"":                             {},
		"x=1":                          {},
		"cacert=/a%20b&x=1":            {CA: "/a b"},
		"cert=/c&key=/k":               {Cert: "/c", Key: "/k"},
		"cacert=/a&cert=/c&key=/k&x=1": {"/a", "/c", "/k"},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		rest := values.Has("x")
		got, err := Take(values, secure, secure)
		if err != nil || got != want || values.Has("x") != rest || len(values) > 1 {
			t.Errorf("%q: %+v, %v; left %v", query, got, err, values)
		}
	}
	for query, scheme := range map[string]string{
		"cacert=/a": "store", "cert=/c&key=/k": "store", "cert=/c": secure, "key=/k": secure, "cacert=": secure, "cacert=/a&cacert=/b": secure,
	} {
		values, _ := url.ParseQuery(query)
		if f, err := Take(values, scheme, secure); err == nil {
			t.Errorf("%s://?%s: %+v", scheme, query, f)
		}
	}
}

// A file that is missing or holds something else is refused.
func TestConfigRefusesFiles(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.pem")
	if err := os.WriteFile(text, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Files{{CA: text}, {CA: text + "x"}, {Cert: text, Key: text}, {Cert: text + "x", Key: text}} {
		if _, err := f.Config(); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
