package prometheus_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis"
)

// A dashboard is what Grafana loads, as far as it matters here.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
	Templating struct{ List []struct{ Name, Type string } }
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || len(d.Panels) == 0 {
		t.Fatalf("dashboard.json: %d panels, %v", len(d.Panels), err)
	}
	return d
}

// No panel lies on another, or beside the grid.
func TestPanelsHavePlaces(t *testing.T) {
	const columns = 24
	ids, taken := make(map[int]string), make(map[[2]int]string)
	for _, p := range readDashboard(t).Panels {
		if other := ids[p.ID]; other != "" {
			t.Errorf("%s has the id of %s", p.Title, other)
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.H <= 0 || g.W <= 0 || g.X < 0 || g.X+g.W > columns || g.Y < 0 {
			t.Errorf("%s is at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// A process uses a real server, which then is killed and started again. No alert is about to come before, those of
// losses and outages are after it, and every panel has data.
func TestDashboardOfRealRun(t *testing.T) {
	server := servers.Redis(t)
	b := storetest.Opened[*redis.Backend](t, "redis://"+server.Addr)
	j := newJob(t, b, lock.WithTTL(4*time.Second)) // the machine may stand still for two seconds
	db := newDatabase(t)
	l := j.begin(200*time.Millisecond, 4*time.Second)
	scrape := func(times int, until func() bool) {
		for range times {
			db.scrape(j.metrics)
			if until() {
				return
			}
			time.Sleep(200 * time.Millisecond) // sleeps: the pause between two scrapes
		}
		t.Fatal("it does not come")
	}
	has := func(exprs ...string) func() bool {
		return func() bool {
			for _, expr := range exprs {
				if len(db.query(expr, db.at[len(db.at)-1])) == 0 {
					return false
				}
			}
			return true
		}
	}
	now := func() (about []string) {
		for _, r := range rules(t) {
			if r.Alert != "" && len(db.query(r.Expr, db.at[len(db.at)-1])) > 0 {
				about = append(about, r.Alert)
			}
		}
		return about
	}
	scrape(200, has("rate(lock_client_renewal_duration_seconds_count[1m]) > 0", "rate(lock_client_handoffs_total[1m]) > 0",
		"rate(lock_client_lease_hold_time_seconds_count[1m]) > 0", "lock_client_lease_age_max_seconds"))
	if about := now(); about != nil {
		t.Errorf("%q without a fault", about)
	}
	end := j.hold(1)
	server.Kill()
	scrape(200, has(`lock_client_lease_losses_total{error_type="lost"} > 0`,
		`lock_client_acquire_duration_seconds_count{error_type="unavailable"}`))
	server.Start()
	end()
	l.end()
	db.scrape(j.metrics)
	about := strings.Join(now(), " ")
	for _, want := range []string{"AnylockLeaseLost", "AnylockStoreUnavailable"} {
		if !strings.Contains(about, want) {
			t.Errorf("%q after losses and an outage, want %s among them", about, want)
		}
	}
	d := readDashboard(t)
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$job", ".*", "$backend", ".*", "$__rate_interval", "1m", "$__range",
				"1h").Replace(q.Expr)
			found := 0
			for _, at := range db.at {
				found += len(db.query(expr, at))
			}
			if found == 0 {
				t.Errorf("%s: no data of %s", p.Title, expr)
			}
		}
	}
}
