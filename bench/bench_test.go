package bench_test

import (
	"runtime"
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
	var stores []bench.Store
	for _, url := range []func(t testing.TB) string{
		func(testing.TB) string { return "memory://bench-stores" },
		func(t testing.TB) string { return "file://" + t.TempDir() },
		servers.RedisURL, servers.EtcdURL, servers.ZooKeeperURL, servers.MemcachedURL, servers.PostgresURL,
	} {
		if url := where(b, url); url != "" {
			s, err := bench.URL(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			stores = append(stores, s)
		}
	}
	for _, sc := range bench.Scenarios(bench.Options{}) {
		b.Run("scenario="+sc.Name, func(b *testing.B) {
			for _, s := range stores {
				b.Run("store="+s.Name, func(b *testing.B) { rounds(b, s, sc.Name) })
			}
		})
	}
}

// where returns the URL of a server, empty if there is none.
func where(b *testing.B, url func(t testing.TB) string) (found string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		found = url(unlessMissing{b})
	}()
	<-done
	return found
}

// unlessMissing skips a server that is not installed.
type unlessMissing struct{ testing.TB }

func (t unlessMissing) Skipf(format string, args ...any) {
	t.Logf(format, args...)
	runtime.Goexit()
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
