package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

func TestURLs(t *testing.T) {
	type target struct {
		endpoints, namespace string
		timeout              time.Duration
	}
	for raw, want := range map[string]target{
		"etcd://":                              {"http://localhost:2379", "anylock", defaultTimeout},
		"etcd://h1,h2:23790/":                  {"http://h1:2379 http://h2:23790", "anylock", defaultTimeout},
		"etcd://[::1],[::2]:1/team/x/":         {"http://[::1]:2379 http://[::2]:1", "team/x", defaultTimeout},
		"etcd://u:p%2Fw@h/a%20b?timeout=700ms": {"http://h:2379", "a b", 700 * time.Millisecond},
		"ETCDS://h":                            {"https://h:2379", "anylock", defaultTimeout},
	} {
		u, err := storetest.Parse(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		o, c, err := fromURL(u)
		if got := (target{strings.Join(c.Endpoints, " "), o.Namespace, o.Timeout}); got != want || err != nil {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
		if secure := strings.HasPrefix(raw, "ETCDS"); secure != (c.TLS != nil) {
			t.Errorf("%s: TLS %v", raw, c.TLS)
		}
	}
}

func TestBadURLs(t *testing.T) {
	for _, raw := range []string{
		"etcd:h", "etcd://h1,,h2", "etcd://h1,h1", "etcd://h1,h1:2379", "etcd://h:", "etcd://:2379", "etcd://::1",
		"etcd://user@h", "etcd://:pass@h", "etcd://user:@h", "etcd://@h",
		"etcd://h?timeout=1ms", "etcd://h?lock_timeout=1s", "etcd://h?cacert=/ca.pem", "etcds://h?cert=/c",
		"etcds://h?key=/k",
		"etcds://h?cacert=", "etcds://h?cacert=/a&cacert=/b", "etcd://h/a//b", "etcd://h/~a", "etcd://h/%zz",
		"etcd://h?%zz=1",
		"etcds://h?cacert=/nonexistent/ca.pem", "etcds://h?cert=/nonexistent/c&key=/nonexistent/k",
	} {
		if _, err := openURL(context.Background(), raw); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", raw, err)
		}
	}
}

func TestErrorsShowNoPassword(t *testing.T) {
	for _, raw := range []string{
		"etcd://u:top-secret@h?x=1", "etcd://u:top-secret@h1,,h2", "etcds://u:top-secret@h?cacert=/nonexistent",
		"etcd://u:top-secret@h:x",
	} {
		_, err := openURL(context.Background(), raw)
		if err == nil || strings.Contains(err.Error(), "top-secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
