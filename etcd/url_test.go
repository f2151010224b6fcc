package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/tlsurl"
)

func TestURLs(t *testing.T) {
	for raw, want := range map[string]target{
		"etcd://":                            {endpoints: []string{"http://localhost:2379"}, options: &Options{Namespace: "anylock"}},
		"etcd://h1,h2:23790/":                {endpoints: []string{"http://h1:2379", "http://h2:23790"}, options: &Options{Namespace: "anylock"}},
		"etcd://[::1],[::2]:1/team/x/":       {endpoints: []string{"http://[::1]:2379", "http://[::2]:1"}, options: &Options{Namespace: "team/x"}},
		"etcd://u:p%2Fw@h/a%20b":             {endpoints: []string{"http://h:2379"}, user: "u", password: "p/w", options: &Options{Namespace: "a b"}},
		"etcds://h?cacert=/x%2Fca.pem":       {endpoints: []string{"https://h:2379"}, options: &Options{Namespace: "anylock"}},
		"ETCDS://h?cert=/c&key=/k&cacert=/a": {endpoints: []string{"https://h:2379"}, options: &Options{Namespace: "anylock"}},
	} {
		got, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if !slices.Equal(got.endpoints, want.endpoints) || got.user != want.user || got.password != want.password ||
			got.options.Namespace != want.options.Namespace {
			t.Errorf("%s: %+v", raw, got)
		}
		if tls := strings.HasPrefix(strings.ToLower(raw), "etcds"); tls != got.secure {
			t.Errorf("%s: TLS %v", raw, got.secure)
		}
	}
	if got, _ := parseURL("etcds://h?cert=/c&key=/k&cacert=/a"); got.files != (tlsurl.Files{CA: "/a", Cert: "/c", Key: "/k"}) {
		t.Errorf("files: %+v", got.files)
	}
}

func TestBadURLs(t *testing.T) {
	for _, raw := range []string{
		"etcd:h", "etcd:", "etcd://h1,,h2", "etcd://h1,h1", "etcd://h1,h1:2379", "etcd://h:", "etcd://:2379", "etcd://::1",
		"etcd://user@h", "etcd://:pass@h", "etcd://user:@h", "etcd://@h",
		"etcd://h?timeout=1s", "etcd://h?lock_timeout=1s", "etcd://h?cacert=/ca.pem", "etcds://h?cert=/c", "etcds://h?key=/k",
		"etcds://h?cacert=", "etcds://h?cacert=/a&cacert=/b", "etcd://h/a//b", "etcd://h/~a", "etcd://h/%zz", "etcd://h?%zz=1",
		"etcds://h?cacert=/nonexistent/ca.pem", "etcds://h?cert=/nonexistent/c&key=/nonexistent/k",
	} {
		if _, err := openURL(context.Background(), raw); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", raw, err)
		}
	}
}

func TestErrorsShowNoPassword(t *testing.T) {
	for _, raw := range []string{
		"etcd://u:top-secret@h?x=1", "etcd://u:top-secret@h1,,h2", "etcds://u:top-secret@h?cacert=/nonexistent", "etcd://u:top-secret@h:x",
	} {
		_, err := openURL(context.Background(), raw)
		if err == nil || strings.Contains(err.Error(), "top-secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
