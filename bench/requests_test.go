package bench_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/bench"
	"github.com/anylock/lock/internal/servers"
)

// Without permission to read the number of requests, a measurement still runs and omits the number.
func TestRequestsOfRedis(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	ctx := context.Background()
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer c.Close()
	for user, rights := range map[string]string{"asks": "+@all", "silent": "-info"} {
		if err := c.Do(ctx, "ACL", "SETUSER", user, "on", ">p@ss", "~*", "&*", "+@all", rights).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		url   string
		known bool
	}{
		{"redis://" + s.Addr, true},
		{"redis://asks:p%40ss@" + s.Addr + "/1?lock_namespace=a%40b", true},
		{"redis://silent:p%40ss@" + s.Addr, false},
	} {
		store, err := bench.URL(ctx, test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		b := measured(t, bench.Options{Stores: []bench.Store{store}, Scenarios: []string{"serial"}, Rounds: 5})
		f, ok := b.Figure("serial", "redis", bench.Requests)
		if r := b.Result("serial", "redis"); r.Problem != "" || ok != test.known || ok && f.Median < 1 {
			t.Errorf("%s: requests %v, %v; %q", test.url, f.Median, ok, r.Problem)
		}
	}
}
