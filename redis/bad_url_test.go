package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
)

// URLs that go-redis would misinterpret are rejected before any request. The error does not show the password.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	for raw, hint := range map[string]string{
		"redis:localhost": "//",
		"redis://u:hunter2@h1?pool_size=99999999999":               "pool",
		"redis://u:hunter2@h1,h2":                                  "2 hosts",
		"redis://u:hunter2@h/zero":                                 "database",
		"redis://u:hunter2@h/-1":                                   "database",
		"redis://u:hunter2@h/+1":                                   "database",
		"redis://u:hunter2@h/1/2":                                  "database",
		"redis://u:hunter2@h/2147483648":                           "database",
		"redis://u:hunter2@h?db=-1":                                "db",
		"redis+unix:///x?db=-1":                                    "db",
		"redis+sentinel://u:hunter2@s1/m/-1":                       "database",
		"redis:///u:hunter2@h":                                     "escape",
		"redis+sentinel://s1/m?sentinel_password=a&hunter2=":       "%26",
		"redis://u:hunter2@h?timeout=soon":                         "duration",
		"redis://u:hunter2@h?read_timeout=1s":                      `parameter "read_timeout": write timeout`,
		"redis+cluster://u:hunter2@h?dial_timeout=1s":              "write timeout",
		"redis://u:hunter2@h?ttl=30s":                              "ttl",
		"redis://u:hunter2@h?lock_ttl=30s":                         "lock_ttl",
		"redis://u:hunter2@h?lock_min_replicas=x":                  "lock_min_replicas",
		"redis://u:hunter2@h?lock_min_replicas=-1":                 "replicas",
		"redis://u:hunter2@h?lock_namespace={x}":                   "brace",
		"redis://u:hunter2@h:port":                                 "port",
		"redis+unix://u:hunter2@host/run/redis.sock":               "host",
		"redis+unix://":                                            "path",
		"redis+sentinel://u:hunter2@s1":                            "master",
		"redis+sentinel://u:hunter2@s1/":                           "master",
		"redis+sentinel://u:hunter2@s1/m/x":                        "database",
		"redis+sentinel://s1/m?password=hunter2":                   "password",
		"redis+sentinel://s1/m?master_name=x":                      "master_name",
		"redis+sentinel://s1/m?replica_only=1":                     "master",
		"redis+sentinel://s1/m?route_randomly=1":                   "master",
		"redis+sentinel://u:hunter2@a:b:c/m":                       "port",
		"redis+cluster://u:hunter2@h1/2":                           "a path has no meaning",
		"redis+cluster://u:hunter2@h1?addr=h2:1":                   "addr",
		"redis+cluster://u:hunter2@h1?route_by_latency=1":          "master",
		"redis+cluster://u:hunter2@h1?read_only=1":                 "master",
		"redis+sentinel://u:hunter2@s1/m?sentinel_passwor=hunter2": "sentinel_passwor",
	} {
		_, err := openURL(context.Background(), raw)
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", raw, err)
			continue
		}
		if !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: message %q, want it to speak of %q and not show the password", raw, err, hint)
		}
	}
}
