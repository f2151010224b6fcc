package bench_test

import (
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/bench"
	"github.com/anylock/lock/internal/servers"
)

// BenchmarkStores measures every scenario on every store whose server is there. An iteration is a round; for benchstat:
//
//	go test -run '^$' -bench Stores -benchtime 5x -count 6 ./bench | tee new.txt && benchstat -col /store new.txt
func BenchmarkStores(b *testing.B) {
	for _, store := range []struct {
		name string
		url  func(b *testing.B) string
	}{
		{"memory", func(*testing.B) string { return "memory://bench-stores" }},
		{"file", func(b *testing.B) string { return "file://" + b.TempDir() }},
		{"redis", func(b *testing.B) string { return servers.RedisURL(b) }},
		{"etcd", func(b *testing.B) string { return servers.EtcdURL(b) }},
		{"zookeeper", func(b *testing.B) string { return servers.ZooKeeperURL(b) }},
		{"memcached", func(b *testing.B) string { return servers.MemcachedURL(b) }},
		{"postgres", func(b *testing.B) string { return servers.PostgresURL(b) }},
	} {
		b.Run("store="+store.name, func(b *testing.B) {
			s, err := bench.URL(b.Context(), store.url(b))
			if err != nil {
				b.Fatal(err)
			}
			for _, sc := range bench.Scenarios(bench.Options{}) {
				b.Run("scenario="+sc.Name, func(b *testing.B) { rounds(b, s, sc.Name) })
			}
		})
	}
}

// rounds measures b.N rounds.
func rounds(b *testing.B, s bench.Store, scenario string) {
	report, err := bench.Run(b.Context(), bench.Options{
		Stores: []bench.Store{s}, Scenarios: []string{scenario}, Rounds: b.N, Duration: 50 * time.Millisecond, Held: 100,
	})
	if err != nil {
		b.Fatal(err)
	}
	r := report.Result(scenario, s.Name)
	switch {
	case r.Problem != "":
		b.Fatal(r.Problem)
	case r.Skipped != "":
		b.Skip(r.Skipped)
	}
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
	for _, m := range bench.Measures {
		if f, ok := r.Figures[m.Name]; ok {
			v, unit := f.Median, m.Name
			switch m.Unit {
			case "s":
				v, unit = v*1e9, m.Name+"-ns"
			case "/s":
				unit = m.Name + "/s"
			}
			b.ReportMetric(v, strings.ReplaceAll(unit, " ", ""))
		}
	}
}
